// YES or NO in any case for each test case, then a permutation.
#include "testlib.h"
using namespace std;

int main(int argc, char *argv[]) {
    registerTestlibCmd(argc, argv);
    int t = inf.readInteger();
    for (int test = 1; test <= t; test++) {
        setTestCase(test);
        string jury = upperCase(ans.readWord("YES|NO")), found = upperCase(ouf.readToken());
        if (found != "YES" && found != "NO") quitf(_pe, "YES or NO expected, but %s found", compress(found).c_str());
        if (jury != found) quitf(_wa, "expected %s, found %s", jury.c_str(), found.c_str());
        if (found == "NO") continue;
        long long n = inf.readLong(1, 1000000000000LL);
        vector<long long> all = ouf.readLongs(int(n), 1, n, "p"), jurys = ans.readLongs(int(n), 1, n);
        sort(all.begin(), all.end());
        for (int i = 0; i < n; i++) ensuref(jurys[i] >= 1, "broken answer");
        if (unique(all.begin(), all.end()) != all.end()) quitf(_wa, "values repeat: %s", vtos(all[0]).c_str());
    }
    unsetTestCase();
    quit(_ok, "fine");
}
