// Line by line, with parts in any order; reading by eoln and characters.
#include "testlib.h"
#include <iostream>

int main(int argc, char *argv[]) {
    registerTestlibCmd(argc, argv);
    std::string commands = inf.readString();
    ensure(commands == "sorted" || commands == "chars");
    if (commands == "chars") {
        std::string found;
        while (!ouf.eoln()) found += ouf.readChar();
        ouf.readEoln();
        ouf.readChar('#');
        ouf.readSpace();
        std::cout << "debugging output" << std::endl;
        if (found != ans.readLine()) quit(_wa, "characters differ");
        quit(_ok);
    }
    int number = 0;
    while (!ans.eof()) {
        std::string jury = ans.readLine(), line = ouf.readLine();
        number++;
        std::vector<std::string> a = tokenize(jury, ' '), b = tokenize(trim(line), ' ');
        std::sort(a.begin(), a.end());
        std::sort(b.begin(), b.end());
        if (a != b) quitf(_wa, "line %d: expected '%s', found '%s'", number, join(a).c_str(), join(b, ", ").c_str());
    }
    quitf(_ok, "%d lines", number);
}
