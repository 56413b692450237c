// As many numbers as the answer holds, each within 1e-6; counts of streams compared at the end.
#include "testlib.h"
#include <bits/stdc++.h>
using namespace std;

const double EPS = 1e-6;

int main(int argc, char *argv[]) {
    setName("compare two sequences of doubles, maximal error = %.10f", EPS);
    registerTestlibCmd(argc, argv);
    int n = 0;
    double j = 0, p = 0;
    while (!ans.seekEof()) {
        n++;
        j = ans.readDouble();
        p = ouf.readDouble();
        if (!doubleCompare(j, p, EPS))
            quitf(_wa, "%d%s numbers differ - expected: '%.5lf', found: '%.5lf', error = '%.5lf'", n, englishEnding(n).c_str(), j, p, doubleDelta(j, p));
    }
    if (n == 1) quitf(_ok, "found '%.5lf', expected '%.5lf', error '%.5lf'", p, j, doubleDelta(j, p));
    quitf(_ok, "%d numbers", n);
}
