"""Families about the sums and the distinct elements of contiguous subarrays."""

import random
from collections.abc import Sequence

from cef_env.problems.builtin.family import Family, any_k, small_k, variant


def _some_sum(rng: random.Random, a: Sequence[int]) -> int:
    """The sum of a random subarray, so that the answer is not always zero."""
    i = rng.randrange(len(a))
    return sum(a[i : rng.randint(i + 1, min(len(a), i + 1 + max(4, len(a) // 2)))])


def _third_of_sum(rng: random.Random, a: Sequence[int]) -> int:
    """Mostly reachable, now and then the exact sum of a subarray or more than the total; at least 1."""
    exact = _some_sum(rng, a)
    return max(1, rng.choice((sum(a) // 3, exact, exact, exact + 1)))


def _distinct_k(rng: random.Random, a: Sequence[int]) -> int:
    return max(1, min(len(set(a)) // rng.choice((2, 3)), 400))


_EXTREME_BRUTE = """\
s=a[0]
for i in range(n):
 t=0
 for j in range(i,n):
  t+=a[j]
  s=max(s,t)
"""
_EXTREME = """\
s=a[0]
t=0
for x in a:
 t=max(t,0)+x
 s=max(s,t)
"""


def _extreme(name: str, word: str, function: str) -> Family:
    brute = _EXTREME_BRUTE.replace("max", function)
    fast = _EXTREME.replace("max", function)
    return Family(
        name=name,
        task=f"Find the {word} sum of a nonempty subarray.",
        brute_force=brute,
        efficient=fast,
        brute_force_bugs=(
            variant(brute, ("s=a[0]", "s=0")),
            variant(brute, (" for j in range(i,n):", " for j in range(i+1,n):")),
        ),
        efficient_bugs=(
            variant(fast, ("s=a[0]", "s=0")),
            variant(fast, (f" t={function}(t,0)+x", f" t={function}(t+x,0)")),
        ),
        choose_k=any_k,
        without=frozenset({"mod", "abs", "diff"}),
    )


_COUNT_BRUTE = """\
s=0
for i in range(n):
 t=0
 for j in range(i,n):
  t+=a[j]
  if t==k:
   s+=1
"""
_SUM_K = """\
s=0
t=0
d={0:1}
for x in a:
 t+=x
 s+=d.get(t-k,0)
 d[t]=d.get(t,0)+1
"""
_DIVISIBLE_BRUTE = variant(_COUNT_BRUTE, ("t==k", "t%k==0"))
_DIVISIBLE = variant(_SUM_K, (" t+=x", " t=(t+x)%k"), ("t-k", "t"))

_SHORTEST_BRUTE = """\
s=n+1
for i in range(n):
 t=0
 for j in range(i,n):
  t+=a[j]
  if t>=k:
   s=min(s,j-i+1)
"""
_SHORTEST = """\
s=n+1
t=0
j=0
for i in range(n):
 t+=a[i]
 while t>=k:
  s=min(s,i-j+1)
  t-=a[j]
  j+=1
"""

_DISTINCT_BRUTE = """\
s=0
for i in range(n):
 d=set()
 for j in range(i,n):
  d.add(a[j])
  if len(d)==j-i+1:
   s=max(s,j-i+1)
"""
_DISTINCT = """\
s=0
j=0
d={}
for i in range(n):
 j=max(j,d.get(a[i],-1)+1)
 d[a[i]]=i
 s=max(s,i-j+1)
"""
_AT_MOST_BRUTE = """\
s=0
for i in range(n):
 d=set()
 for j in range(i,n):
  d.add(a[j])
  if len(d)<=k:
   s+=1
"""
_AT_MOST = """\
s=0
j=0
d={}
for i in range(n):
 d[a[i]]=d.get(a[i],0)+1
 while len(d)>k:
  d[a[j]]-=1
  if d[a[j]]==0:
   del d[a[j]]
  j+=1
 s+=i-j+1
"""

FAMILIES = (
    _extreme("max_subarray", "largest", "max"),
    _extreme("min_subarray", "smallest", "min"),
    Family(
        name="sum_k",
        task="Count subarrays whose sum is k.",
        brute_force=_COUNT_BRUTE,
        efficient=_SUM_K,
        brute_force_bugs=(
            variant(_COUNT_BRUTE, (" for j in range(i,n):", " for j in range(i+1,n):")),
            variant(_COUNT_BRUTE, ("t==k", "t>=k")),
        ),
        efficient_bugs=(
            variant(_SUM_K, ("d={0:1}", "d={}")),
            variant(_SUM_K, ("t-k", "k-t")),
        ),
        choose_k=_some_sum,
        large_shapes=("few", "few"),
    ),
    Family(
        name="sum_divisible",
        task="Count subarrays whose sum is divisible by k.",
        brute_force=_DIVISIBLE_BRUTE,
        efficient=_DIVISIBLE,
        brute_force_bugs=(
            variant(_DIVISIBLE_BRUTE, (" for j in range(i,n):", " for j in range(i+1,n):")),
            variant(_DIVISIBLE_BRUTE, ("t%k==0", "a[j]%k==0")),
        ),
        efficient_bugs=(
            variant(_DIVISIBLE, ("d={0:1}", "d={}")),
            variant(
                _DIVISIBLE,
                (" s+=d.get(t,0)\n d[t]=d.get(t,0)+1\n", " d[t]=d.get(t,0)+1\n s+=d.get(t,0)\n"),
            ),
        ),
        choose_k=small_k,
    ),
    Family(
        name="shortest_sum",
        task="Find the length of the shortest subarray with sum at least k, or n+1 if there is none.",
        brute_force=_SHORTEST_BRUTE,
        efficient=_SHORTEST,
        brute_force_bugs=(
            variant(_SHORTEST_BRUTE, ("t>=k", "t>k")),
            variant(_SHORTEST_BRUTE, ("j-i+1", "j-i")),
        ),
        efficient_bugs=(
            variant(_SHORTEST, ("t>=k", "t>k")),
            variant(_SHORTEST, ("i-j+1", "i-j")),
            variant(_SHORTEST, (" while t>=k:", " if t>=k:")),
        ),
        choose_k=_third_of_sum,
        natural=True,
    ),
    Family(
        name="longest_distinct",
        task="Find the length of the longest subarray whose elements are all distinct.",
        brute_force=_DISTINCT_BRUTE,
        efficient=_DISTINCT,
        brute_force_bugs=(
            variant(_DISTINCT_BRUTE, ("len(d)==j-i+1", "len(d)>=j-i")),
            variant(_DISTINCT_BRUTE, ("s=max(s,j-i+1)", "s=max(s,j-i)")),
        ),
        efficient_bugs=(
            variant(_DISTINCT, (" j=max(j,d.get(a[i],-1)+1)", " j=d.get(a[i],-1)+1")),
            variant(_DISTINCT, ("i-j+1", "i-j")),
        ),
        choose_k=any_k,
        large_shapes=("random", "few"),
        without=frozenset({"sort"}),
    ),
    Family(
        name="at_most_k_distinct",
        task="Count subarrays with at most k distinct elements.",
        brute_force=_AT_MOST_BRUTE,
        efficient=_AT_MOST,
        brute_force_bugs=(
            variant(_AT_MOST_BRUTE, ("len(d)<=k", "len(d)<k")),
            variant(_AT_MOST_BRUTE, (" for j in range(i,n):", " for j in range(i+1,n):")),
        ),
        efficient_bugs=(
            variant(_AT_MOST, ("i-j+1", "i-j")),
            variant(_AT_MOST, (" while len(d)>k:", " while len(d)>=k:")),
            variant(_AT_MOST, (" d[a[i]]=d.get(a[i],0)+1", " d[a[i]]=1")),
        ),
        choose_k=_distinct_k,
        subtle=True,
        large_shapes=("few", "few"),
    ),
)
