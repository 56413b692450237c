// Points, partial results, faults and a checker that forgets to quit.
#include "testlib.h"
using namespace std;

int main(int argc, char *argv[]) {
    registerTestlibCmd(argc, argv);
    string what = inf.readToken();
    if (what == "points") quitp(0.5, "half of %d", 10);
    if (what == "partial") quitf(_pc(50), "half");
    if (what == "fail") quitf(_fail, "%s", "jury is wrong");
    if (what == "crash") { int *nowhere = nullptr; *nowhere = 1; }
    if (what == "throw") throw runtime_error("no");
    if (what == "hang") for (volatile int i = 0;; i = i + 1) {}
    if (what == "memory") { vector<char> a; for (;;) a.resize(a.size() + (64 << 20), 'x'); }
    if (what == "flood") for (;;) puts("a line of output that nobody wants to read");
    if (what == "exit") exit(0);
    if (what == "exit9") _Exit(9);
    if (what == "argument") quitf(argc > 4 ? _ok : _wa, "%s", argc > 4 ? argv[4] : "none");
    if (what == "answer") ans.readInt(1, 5, "jury");
    if (what == "expected") expectedButFound(_wa, 5LL, string("x"), "in line %d:", 3);
    if (what == "random") quit(rnd.next(5, 5) == 5 && rnd.perm(3).size() == 3 && rnd.next() < 1 && rnd.wnext(10, 2) < 10 ? _ok : _wa);
}
