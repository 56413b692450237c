// Reads the output as what the input says, to see which texts are such values.
#include "testlib.h"

int main(int argc, char *argv[]) {
    registerTestlibCmd(argc, argv);
    std::string kind = inf.readToken();
    if (kind == "int") quitf(_ok, "%d", ouf.readInt());
    if (kind == "long") quitf(_ok, "%lld", ouf.readLong());
    if (kind == "unsigned") quitf(_ok, "%llu", ouf.readUnsignedLong());
    if (kind == "double") quitf(_ok, "%.3f", ouf.readReal());
    if (kind == "strict") quitf(_ok, "%.3f", ouf.readStrictDouble(-10, 10, 1, 3, "x"));
    if (kind == "range") quitf(_ok, "%lld", (long long)ouf.readLong(0ULL, 5ULL, "u") + ouf.readLong(-3, 3, "i"));
    if (kind == "word") quit(_ok, ouf.readWord("[a-c]{2,4}x?|(ab)+z*[^a]", "w"));
    if (kind == "long_word") quit(_ok, compress(ouf.readToken("[a-z]{1,100000}")));
    if (kind == "line") quit(_ok, ouf.readLine("[a-z ]+"));
    if (kind == "words") quit(_ok, join(ouf.readTokens(2, "[a-z]+", "w"), '-'));
    if (kind == "split") quit(split("a,,b", ',').size() == 3 && lowerCase("Ab") == "ab" && trimLeft(" x ") == "x " ? _ok : _fail);
    if (kind == "eof") { ouf.readEof(); quit(_ok); }
    if (kind == "convert") quitf(_ok, "%lld", stringToLongLong(ouf, ouf.readToken().c_str()));
}
