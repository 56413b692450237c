"""Families about windows and neighbours: monotone stacks, monotone queues, prefix sums."""

from cef_env.problems.builtin.family import Family, any_k, variant, window_k

_NEXT_BRUTE = """\
s=0
for i in range(n):
 for j in range(i+1,n):
  if a[j]>a[i]:
   s+=j-i
   break
"""
_NEXT = """\
s=0
q=[]
for i in range(n):
 while q and a[q[-1]]<a[i]:
  s+=i-q.pop()
 q.append(i)
"""
_RECTANGLE_BRUTE = """\
s=0
for i in range(n):
 t=a[i]
 for j in range(i,n):
  t=min(t,a[j])
  s=max(s,t*(j-i+1))
"""
_RECTANGLE = """\
s=0
q=[]
a.append(0)
for i in range(n+1):
 while q and a[q[-1]]>=a[i]:
  t=a[q.pop()]
  j=q[-1] if q else -1
  s=max(s,t*(i-j-1))
 q.append(i)
"""
_WINDOW_BRUTE = """\
s=0
for i in range(n-k+1):
 t=a[i]
 for j in range(i,i+k):
  t=max(t,a[j])
 s+=t
"""
_WINDOW = """\
from collections import deque
s=0
q=deque()
for i in range(n):
 while q and a[q[-1]]<=a[i]:
  q.pop()
 q.append(i)
 if q[0]<=i-k:
  q.popleft()
 if i>=k-1:
  s+=a[q[0]]
"""


def _window(name: str, word: str, function: str, sign: str) -> Family:
    brute = variant(_WINDOW_BRUTE, ("max", function))
    fast = variant(_WINDOW, ("<=a[i]", f"{sign}a[i]"))
    return Family(
        name=name,
        task=f"Add up the {word} element of every window of k elements (1<=k<=n).",
        brute_force=brute,
        efficient=fast,
        brute_force_bugs=(
            variant(brute, ("range(n-k+1)", "range(n-k)")),
            variant(brute, (" t=a[i]", " t=0")),
        ),
        efficient_bugs=(
            variant(fast, ("q[0]<=i-k", "q[0]<i-k")),
            variant(fast, ("i>=k-1", "i>=k")),
            variant(fast, (" while q and", " if q and")),
        ),
        choose_k=window_k,
        subtle=True,
        without=frozenset({"sort", "abs", "mod"}),
    )


_QUERIES_BRUTE = """\
s=0
for i in range(n):
 x=a[i]%n
 for j in range(min(i,x),max(i,x)+1):
  s+=a[j]
"""
_QUERIES = """\
p=[0]
for x in a:
 p.append(p[-1]+x)
s=0
for i in range(n):
 x=a[i]%n
 s+=p[max(i,x)+1]-p[min(i,x)]
"""

FAMILIES = (
    Family(
        name="next_greater",
        task="For each i find the distance to the next greater element, or 0. Add them up.",
        brute_force=_NEXT_BRUTE,
        efficient=_NEXT,
        brute_force_bugs=(
            variant(_NEXT_BRUTE, ("a[j]>a[i]", "a[j]>=a[i]")),
            variant(_NEXT_BRUTE, ("   break\n", "")),
        ),
        efficient_bugs=(
            variant(_NEXT, ("<a[i]", "<=a[i]")),
            variant(_NEXT, (" while q and", " if q and")),
        ),
        choose_k=any_k,
        subtle=True,
        # The quadratic program stops at the first greater element: only a falling array is slow for it,
        # and which of the two is falling depends on the transforms.
        large_shapes=("rising", "falling"),
        without=frozenset({"sort", "mod", "prefix", "diff"}),
    ),
    Family(
        name="rectangle",
        task="Find the largest min(a[i..j])*(j-i+1) over all i<=j.",
        brute_force=_RECTANGLE_BRUTE,
        efficient=_RECTANGLE,
        brute_force_bugs=(
            variant(_RECTANGLE_BRUTE, ("j-i+1", "j-i")),
            variant(_RECTANGLE_BRUTE, (" t=a[i]", " t=0")),
        ),
        efficient_bugs=(
            variant(_RECTANGLE, ("a.append(0)\n", ""), ("range(n+1)", "range(n)")),
            variant(_RECTANGLE, ("i-j-1", "i-j")),
            variant(_RECTANGLE, ("else -1", "else 0")),
        ),
        choose_k=any_k,
        natural=True,
        subtle=True,
    ),
    _window("window_max", "largest", "max", "<="),
    _window("window_min", "smallest", "min", ">="),
    Family(
        name="range_sums",
        task="For each i add up all a[j] with j from i to x or x to i, x=a[i] modulo n. Add up these sums.",
        brute_force=_QUERIES_BRUTE,
        efficient=_QUERIES,
        brute_force_bugs=(
            variant(_QUERIES_BRUTE, ("max(i,x)+1", "max(i,x)")),
            variant(_QUERIES_BRUTE, ("range(min(i,x),max(i,x)+1)", "range(i,x+1)")),
        ),
        efficient_bugs=(
            variant(_QUERIES, ("max(i,x)+1", "max(i,x)")),
            variant(_QUERIES, ("p[max(i,x)+1]-p[min(i,x)]", "p[x+1]-p[i]")),
        ),
        choose_k=any_k,
    ),
)
