// Any path of the best length: jury and contestant read by one function, whose faults have different owners.
#include "testlib.h"
using namespace std;

int n, m;
set<pair<int, int>> edges;

int readPath(InStream &in) {
    int length = in.readInt(-1, n, "length");
    if (length == -1) return -1;
    vector<int> path = in.readInts(length, 1, n, "path");
    if (path.empty() || path.front() != 1 || path.back() != n) in.quitf(_wa, "the path does not lead from 1 to %d", n);
    for (size_t i = 1; i < path.size(); i++)
        if (!edges.count({path[i - 1], path[i]})) in.quitf(_wa, "there is no edge %d %d", path[i - 1], path[i]);
    return length;
}

int main(int argc, char **argv) {
    registerTestlibCmd(argc, argv);
    n = inf.readInt(), m = inf.readInt();
    for (int i = 0; i < m; i++) {
        int a = inf.readInt(1, n, format("a[%d]", i)), b = inf.readInt(1, n);
        edges.insert({a, b});
        edges.insert({b, a});
    }
    int jury = readPath(ans), contestant = readPath(ouf);
    if (contestant == -1 && jury == -1) quit(_ok, "no path");
    if (contestant == -1) quitf(_wa, "jury has a path of %d, contestant has none", jury);
    if (jury == -1 || contestant < jury) quitf(_fail, "contestant has a better path: %d", contestant);
    quitif(contestant > jury, _wa, "path of %d, expected %d", contestant, jury);
    quitf(_ok, "%d", contestant);
}
