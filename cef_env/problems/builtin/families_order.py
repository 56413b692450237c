"""Families about order: inversions with a Fenwick tree, subsequences, counting and sweeping."""

import random
from collections.abc import Sequence

from cef_env.problems.builtin.family import Family, any_k, variant

_COUNT_BRUTE = """\
s=0
for i in range(n):
 for j in range(i+1,n):
  if a[i]>a[j]:
   s+=1
"""
_QUERY = """\
 i=v[a[j]]
 t=0
 while i>0:
  t+=b[i]
  i-=i&-i
 s+=j-t
"""
_UPDATE = """\
 i=v[a[j]]
 while i<=m:
  b[i]+=1
  i+=i&-i
"""
_HEAD = """\
v={x:i+1 for i,x in enumerate(sorted(set(a)))}
m=len(v)
b=[0]*(m+1)
s=0
for j in range(n):
"""
_UP_TO = " i=v[a[j]]\n t=0"
_BELOW = " i=v[a[j]]-1\n t=0"


def _inversions(name: str, sign: str, below: bool, collect: str, wrong: str) -> Family:
    """Pairs i<j with a[i] `sign` a[j]; `below`: the tree is asked for smaller ranks only."""
    brute = variant(_COUNT_BRUTE, ("a[i]>a[j]", f"a[i]{sign}a[j]"))
    query = variant(_QUERY, (_UP_TO, _BELOW if below else _UP_TO), ("s+=j-t", collect))
    other = variant(_QUERY, (_UP_TO, _UP_TO if below else _BELOW), ("s+=j-t", collect))
    fast = _HEAD + query + _UPDATE
    strict = sign in "<>"
    bound = (" for j in range(i+1,n):", " for j in range(i+1,n-1):" if strict else " for j in range(i,n):")
    return Family(
        name=name,
        task=f"Count pairs i<j with a[i]{sign}a[j].",
        brute_force=brute,
        efficient=fast,
        brute_force_bugs=(
            variant(brute, bound),
            variant(brute, (f"a[i]{sign}a[j]", f"a[i]{sign[0] if len(sign) == 2 else sign + '='}a[j]")),
        ),
        efficient_bugs=(
            # Updating first counts an element against itself, but not where only smaller ranks are asked for.
            variant(fast, ("sorted(set(a))", "sorted(a)")) if below else _HEAD + _UPDATE + query,
            _HEAD + other + _UPDATE,
            variant(fast, (collect, wrong)),
        ),
        choose_k=any_k,
        subtle=True,
        without=frozenset({"sort"}),
    )


_SMALLER_BRUTE = """\
s=0
for i in range(n):
 t=0
 for j in range(i):
  if a[j]<a[i]:
   t+=1
 s=max(s,t)
"""
_SMALLER = _HEAD + variant(_QUERY, (_UP_TO, _BELOW), ("s+=j-t", "s=max(s,t)")) + _UPDATE

_LIS_BRUTE = """\
d=[1]*n
for i in range(n):
 for j in range(i):
  if a[j]<a[i]:
   d[i]=max(d[i],d[j]+1)
s=max(d)
"""
_LIS = """\
from bisect import bisect_left
d=[]
for x in a:
 i=bisect_left(d,x)
 d[i:i+1]=[x]
s=len(d)
"""
_LNDS_BRUTE = variant(_LIS_BRUTE, ("a[j]<a[i]", "a[j]<=a[i]"))
_LNDS = _LIS.replace("bisect_left", "bisect_right")
_CHAIN_BRUTE = variant(_LIS_BRUTE, ("a[j]<a[i]", "a[i]-a[j]==k"))
_CHAIN = """\
d={}
for x in a:
 d[x]=d.get(x-k,0)+1
s=max(d.values())
"""
_FREQUENT_BRUTE = """\
s=0
for i in range(n):
 t=0
 for j in range(n):
  if a[j]==a[i]:
   t+=1
 s=max(s,t)
"""
_FREQUENT = """\
d={}
for x in a:
 d[x]=d.get(x,0)+1
s=max(d.values())
"""
_UNION_BRUTE = """\
s=0
for i in range(n):
 t=k
 for j in range(n):
  if (a[j],j)>(a[i],i):
   t=min(t,a[j]-a[i])
 s+=t
"""
_UNION = """\
a.sort()
s=k
for i in range(1,n):
 s+=min(k,a[i]-a[i-1])
"""


def _step(rng: random.Random, a: Sequence[int]) -> int:
    """The difference of two nearby elements: chains of some length exist."""
    i = rng.randrange(len(a))
    return a[min(len(a) - 1, i + rng.randint(1, 3))] - a[i]


def _length(rng: random.Random, a: Sequence[int]) -> int:
    """An interval length for which some intervals overlap and some do not; at least 1."""
    return max(1, (max(a) - min(a)) // len(a) + rng.randint(0, 2))


FAMILIES = (
    _inversions("inversions", ">", False, "s+=j-t", "s+=t"),
    _inversions("non_inversions", "<", True, "s+=t", "s+=j-t"),
    _inversions("inversions_or_equal", ">=", True, "s+=j-t", "s+=t"),
    _inversions("non_inversions_or_equal", "<=", False, "s+=t", "s+=j-t"),
    Family(
        name="smaller_before",
        task="For each i count the j<i with a[j]<a[i]. The answer is the largest count.",
        brute_force=_SMALLER_BRUTE,
        efficient=_SMALLER,
        brute_force_bugs=(
            variant(_SMALLER_BRUTE, ("a[j]<a[i]", "a[j]<=a[i]")),
            variant(_SMALLER_BRUTE, ("range(i)", "range(n)")),
        ),
        efficient_bugs=(
            variant(_SMALLER, (_BELOW, _UP_TO)),
            variant(_SMALLER, ("s=max(s,t)", "s+=t")),
        ),
        choose_k=any_k,
        subtle=True,
        without=frozenset({"sort"}),
    ),
    Family(
        name="increasing",
        task="Find the length of the longest strictly increasing subsequence.",
        brute_force=_LIS_BRUTE,
        efficient=_LIS,
        brute_force_bugs=(
            variant(_LIS_BRUTE, ("a[j]<a[i]", "a[j]<=a[i]")),
            variant(_LIS_BRUTE, ("s=max(d)", "s=d[n-1]")),
        ),
        efficient_bugs=(_LNDS, variant(_LIS, (" d[i:i+1]=[x]", " d[i:i]=[x]"))),
        choose_k=any_k,
        without=frozenset({"sort"}),
    ),
    Family(
        name="non_decreasing",
        task="Find the length of the longest non-decreasing subsequence.",
        brute_force=_LNDS_BRUTE,
        efficient=_LNDS,
        brute_force_bugs=(_LIS_BRUTE, variant(_LNDS_BRUTE, ("s=max(d)", "s=d[n-1]"))),
        efficient_bugs=(_LIS, variant(_LNDS, (" d[i:i+1]=[x]", " d[i:i]=[x]"))),
        choose_k=any_k,
        without=frozenset({"sort"}),
    ),
    Family(
        name="chain",
        task="Find the length of the longest subsequence where each element is the one before plus k.",
        brute_force=_CHAIN_BRUTE,
        efficient=_CHAIN,
        brute_force_bugs=(
            variant(_CHAIN_BRUTE, ("a[i]-a[j]==k", "a[j]-a[i]==k")),
            variant(_CHAIN_BRUTE, ("s=max(d)", "s=d[n-1]")),
        ),
        efficient_bugs=(
            variant(_CHAIN, ("x-k", "x+k")),
            variant(_CHAIN, ("s=max(d.values())", "s=len(d)")),
        ),
        choose_k=_step,
        large_shapes=("few", "few"),
    ),
    Family(
        name="most_frequent",
        task="Find how many times the most frequent element occurs.",
        brute_force=_FREQUENT_BRUTE,
        efficient=_FREQUENT,
        brute_force_bugs=(
            variant(_FREQUENT_BRUTE, (" for j in range(n):", " for j in range(i+1,n):")),
            variant(_FREQUENT_BRUTE, (" s=max(s,t)", " s=t")),
        ),
        efficient_bugs=(
            variant(_FREQUENT, (" d[x]=d.get(x,0)+1", " d[x]=1")),
            variant(_FREQUENT, ("s=max(d.values())", "s=max(d)")),
        ),
        choose_k=any_k,
        large_shapes=("few", "few"),
    ),
    Family(
        name="interval_union",
        task="Find the length of the union of the intervals from a[i] to a[i]+k.",
        brute_force=_UNION_BRUTE,
        efficient=_UNION,
        brute_force_bugs=(
            variant(_UNION_BRUTE, ("(a[j],j)>(a[i],i)", "a[j]>a[i]")),
            variant(_UNION_BRUTE, (" for j in range(n):", " for j in range(i+1,n):")),
        ),
        efficient_bugs=(
            variant(_UNION, ("a.sort()\n", "")),
            variant(_UNION, ("s=k", "s=0")),
            variant(_UNION, ("min(k,", "max(k,")),
        ),
        choose_k=_length,
        without=frozenset({"sort"}),
    ),
)
