"""Families about pairs of elements: counting them by a condition, or finding an extreme pair."""

import random
from collections.abc import Sequence

from cef_env.problems.builtin.family import ChooseK, Family, any_k, variant


def _two(rng: random.Random, a: Sequence[int]) -> tuple[int, int]:
    """Two elements, now and then the same one twice (a pair must not use an element twice)."""
    i, j = rng.randrange(len(a)), rng.randrange(len(a))
    if rng.random() < 0.3:
        i = j
    return a[min(i, j)], a[max(i, j)]


def _sum_of_two(rng: random.Random, a: Sequence[int]) -> int:
    return sum(_two(rng, a))


def _difference_of_two(rng: random.Random, a: Sequence[int]) -> int:
    x, y = _two(rng, a)
    return y - x


def _xor_of_two(rng: random.Random, a: Sequence[int]) -> int:
    x, y = _two(rng, a)
    return x ^ y


_COUNT_BRUTE = """\
s=0
for i in range(n):
 for j in range(i+1,n):
  if CONDITION:
   s+=1
"""
_COUNT = """\
s=0
d={}
for x in a:
 s+=d.get(KEY,0)
 d[x]=d.get(x,0)+1
"""


def _count(name: str, condition: str, key: str, wrong_key: str, choose_k: ChooseK, note: str = "") -> Family:
    brute = _COUNT_BRUTE.replace("CONDITION", condition)
    fast = _COUNT.replace("KEY", key)
    lookup, store = f" s+=d.get({key},0)\n", " d[x]=d.get(x,0)+1\n"
    return Family(
        name=name,
        task=f"Count pairs i<j with {condition.replace('==', '=')}{note}.",
        brute_force=brute,
        efficient=fast,
        brute_force_bugs=(
            variant(brute, (" for j in range(i+1,n):", " for j in range(i,n):")),
            variant(brute, (" for j in range(i+1,n):", " for j in range(n):")),
        ),
        efficient_bugs=(
            variant(fast, (lookup + store, store + lookup)),
            variant(fast, (store, " d[x]=1\n")),
            variant(fast, (key, wrong_key)),
        ),
        choose_k=choose_k,
        large_shapes=("few", "few"),
    )


_CLOSEST_BRUTE = """\
s=abs(a[0]-a[1])
for i in range(n):
 for j in range(i+1,n):
  s=min(s,abs(a[i]-a[j]))
"""
_CLOSEST = """\
a.sort()
s=a[1]-a[0]
for i in range(1,n):
 s=min(s,a[i]-a[i-1])
"""
_BEST_BRUTE = """\
s=0
for i in range(n):
 for j in range(i+1,n):
  t=a[i]+a[j]
  if t<=k:
   s=max(s,t)
"""
_BEST = """\
a.sort()
s=0
i=0
j=n-1
while i<j:
 t=a[i]+a[j]
 if t<=k:
  s=max(s,t)
  i+=1
 else:
  j-=1
"""
_PRODUCT_BRUTE = """\
s=a[0]*a[1]
for i in range(n):
 for j in range(i+1,n):
  s=max(s,a[i]*a[j])
"""
_PRODUCT = """\
a.sort()
s=max(a[0]*a[1],a[n-1]*a[n-2])
"""
_TRADE_BRUTE = """\
s=0
for i in range(n):
 for j in range(i+1,n):
  s=max(s,a[j]-a[i])
"""
_TRADE = """\
s=0
t=a[0]
for x in a:
 s=max(s,x-t)
 t=min(t,x)
"""

FAMILIES = (
    _count("pair_sum", "a[i]+a[j]==k", "k-x", "x-k", _sum_of_two),
    _count("pair_difference", "a[j]-a[i]==k", "x-k", "x+k", _difference_of_two),
    _count("pair_xor", "a[i]^a[j]==k", "x^k", "k-x", _xor_of_two, " (^ is bitwise xor)"),
    Family(
        name="closest_pair",
        task="Find the smallest |a[i]-a[j]| over pairs i<j.",
        brute_force=_CLOSEST_BRUTE,
        efficient=_CLOSEST,
        brute_force_bugs=(
            variant(_CLOSEST_BRUTE, (" for j in range(i+1,n):", " for j in range(i,n):")),
            variant(_CLOSEST_BRUTE, ("abs(a[i]-a[j])", "a[i]-a[j]")),
        ),
        efficient_bugs=(
            variant(_CLOSEST, ("a.sort()\n", "")),
            variant(_CLOSEST, ("s=a[1]-a[0]", "s=0")),
            variant(_CLOSEST, ("range(1,n)", "range(n)")),
        ),
        choose_k=any_k,
        min_n=2,
        without=frozenset({"sort"}),
    ),
    Family(
        name="best_pair_sum",
        task="Find the largest a[i]+a[j] over pairs i<j that is at most k, or 0 if there is none.",
        brute_force=_BEST_BRUTE,
        efficient=_BEST,
        brute_force_bugs=(
            variant(_BEST_BRUTE, (" for j in range(i+1,n):", " for j in range(i,n):")),
            variant(_BEST_BRUTE, ("t<=k", "t<k")),
        ),
        efficient_bugs=(
            variant(_BEST, ("a.sort()\n", "")),
            variant(_BEST, ("i<j", "i<=j")),
            variant(_BEST, ("t<=k", "t<k")),
        ),
        choose_k=_sum_of_two,
        natural=True,
        without=frozenset({"sort", "prefix"}),
    ),
    Family(
        name="max_product",
        task="Find the largest a[i]*a[j] over pairs i<j.",
        brute_force=_PRODUCT_BRUTE,
        efficient=_PRODUCT,
        brute_force_bugs=(
            variant(_PRODUCT_BRUTE, ("range(i+1,n)", "range(i+1,n-1)")),
            variant(_PRODUCT_BRUTE, (" for j in range(i+1,n):", " for j in range(i,n):")),
        ),
        efficient_bugs=(
            variant(_PRODUCT, ("s=max(a[0]*a[1],a[n-1]*a[n-2])", "s=a[n-1]*a[n-2]")),
            variant(_PRODUCT, ("a[0]*a[1]", "a[0]*a[n-1]")),
        ),
        choose_k=any_k,
        min_n=2,
        without=frozenset({"mod", "abs", "prefix"}),
    ),
    Family(
        name="best_trade",
        task="Find the largest a[j]-a[i] over pairs i<j, or 0 if all are negative.",
        brute_force=_TRADE_BRUTE,
        efficient=_TRADE,
        brute_force_bugs=(
            variant(_TRADE_BRUTE, ("a[j]-a[i]", "a[i]-a[j]")),
            variant(_TRADE_BRUTE, ("a[j]-a[i]", "abs(a[j]-a[i])")),
        ),
        efficient_bugs=(
            variant(_TRADE, ("t=a[0]", "t=0")),
            "s=max(a)-min(a)\n",
        ),
        choose_k=any_k,
        without=frozenset({"sort"}),
    ),
)
