// The part of the testlib interface that checkers use, for C++17 and later.
//
// An independent implementation, written from the interface's public documentation; it holds no code of
// testlib itself. For checkers only: no generators, validators or interactors. A checker ends by quit(), quitf()
// or the like; one that returns from main() without has failed.
//
//     registerTestlibCmd(argc, argv);              // ./checker input output answer
//     int wanted = ans.readInt(), got = ouf.readInt(1, 100, "n");
//     if (wanted != got) quitf(_wa, "expected %d, found %d", wanted, got);
//     quitf(_ok, "n = %d", got);
//
// A mistake found while reading `ouf` is the contestant's (_wa, _pe, _unexpected_eof); the same mistake in `inf`
// or `ans` is _fail. After _ok nothing but whitespace may be left in `ouf`, or the result is _dirt.
//
// Stricter than usual: readDouble() takes finite decimal numbers only. `inf` and `nan` make comparisons such as
// `fabs(a - b) / max(1.0, fabs(a)) > eps` false, and would be accepted by many checkers.

#ifndef CEF_TESTLIB_H
#define CEF_TESTLIB_H

#include <algorithm>
#include <bitset>
#include <cctype>
#include <climits>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <queue>
#include <random>
#include <set>
#include <sstream>
#include <stack>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#define EOFC (255)
static const char LF = '\n', CR = '\r', TAB = '\t', SPACE = ' ';

enum TResult { _ok = 0, _wa = 1, _pe = 2, _fail = 3, _dirt = 4, _points = 5, _unexpected_eof = 8, _partially = 16 };
enum TMode { _input, _output, _answer };
#define _pc(percent) (TResult(_partially + (percent)))

// ---------------------------------------------------------------- text

template <class... Args>
std::string format(const char *pattern, Args... args) {
    int size = std::snprintf(nullptr, 0, pattern, args...);
    if (size < 0) return pattern;
    std::string text(size_t(size) + 1, '\0');
    std::snprintf(&text[0], text.size(), pattern, args...);
    text.pop_back();
    return text;
}
template <class... Args>
std::string format(const std::string &pattern, Args... args) { return format(pattern.c_str(), args...); }

inline bool isBlanks(char c) { return c == LF || c == CR || c == TAB || c == SPACE; }
inline bool isEoln(char c) { return c == LF || c == CR; }
inline bool isEof(int c) { return c == EOFC || c == EOF; }

template <class T>
std::string toString(const T &value) {
    std::ostringstream out;
    out << value;
    return out.str();
}
template <class T>
std::string vtos(const T &value) { return toString(value); }

inline std::string compress(const std::string &text) {
    return text.size() <= 64 ? text : text.substr(0, 30) + "..." + text.substr(text.size() - 31);
}
inline std::string upperCase(std::string text) {
    for (char &c : text) if ('a' <= c && c <= 'z') c = char(c - 'a' + 'A');
    return text;
}
inline std::string lowerCase(std::string text) {
    for (char &c : text) if ('A' <= c && c <= 'Z') c = char(c - 'A' + 'a');
    return text;
}
inline std::string trimLeft(const std::string &text) {
    size_t start = 0;
    while (start < text.size() && isBlanks(text[start])) start++;
    return text.substr(start);
}
inline std::string trimRight(const std::string &text) {
    size_t end = text.size();
    while (end > 0 && isBlanks(text[end - 1])) end--;
    return text.substr(0, end);
}
inline std::string trim(const std::string &text) { return trimLeft(trimRight(text)); }

// The parts between separators, empty ones too; tokenize() leaves the empty ones out.
inline std::vector<std::string> split(const std::string &text, const std::string &separators) {
    std::vector<std::string> parts(1);
    for (char c : text) {
        if (separators.find(c) == std::string::npos) parts.back() += c;
        else parts.emplace_back();
    }
    return parts;
}
inline std::vector<std::string> split(const std::string &text, char separator) {
    return split(text, std::string(1, separator));
}
inline std::vector<std::string> tokenize(const std::string &text, const std::string &separators) {
    std::vector<std::string> parts = split(text, separators);
    parts.erase(std::remove(parts.begin(), parts.end(), std::string()), parts.end());
    return parts;
}
inline std::vector<std::string> tokenize(const std::string &text, char separator) {
    return tokenize(text, std::string(1, separator));
}
template <class Iterator, class Separator>
std::string join(Iterator first, Iterator last, Separator separator) {
    std::ostringstream out;
    for (Iterator it = first; it != last; ++it) {
        if (it != first) out << separator;
        out << *it;
    }
    return out.str();
}
template <class Iterator>
auto join(Iterator first, Iterator last) -> decltype(*first, std::string()) { return join(first, last, ' '); }
template <class Collection>
auto join(const Collection &all, char separator = ' ') -> decltype(all.begin(), std::string()) {
    return join(all.begin(), all.end(), separator);
}
template <class Collection>
auto join(const Collection &all, const std::string &separator) -> decltype(all.begin(), std::string()) {
    return join(all.begin(), all.end(), separator);
}

inline std::string englishEnding(int number) {
    number %= 100;
    if (number / 10 == 1) return "th";
    return number % 10 == 1 ? "st" : number % 10 == 2 ? "nd" : number % 10 == 3 ? "rd" : "th";
}

// ---------------------------------------------------------------- patterns

// What tokens are checked against: characters, [a-z] and [^a-z], (one|other), and ? * + {n} {n,} {n,m}.
class pattern {
    struct Node;
    using Sequence = std::vector<Node>;
    struct Node {
        std::vector<bool> accepts;           // of a character set; empty for a group
        std::vector<Sequence> alternatives;  // of a group
        size_t least = 1, most = 1;
    };
    // Places in a text, ascending. Most are found in this order, and a text may have millions.
    class Places {
        std::vector<size_t> found;

    public:
        Places() {}
        explicit Places(size_t place) : found(1, place) {}
        bool empty() const { return found.empty(); }
        size_t size() const { return found.size(); }
        std::vector<size_t>::const_iterator begin() const { return found.begin(); }
        std::vector<size_t>::const_iterator end() const { return found.end(); }
        bool has(size_t place) const { return std::binary_search(found.begin(), found.end(), place); }
        void add(size_t place) {
            if (found.empty() || found.back() < place) {
                found.push_back(place);
            } else {
                auto where = std::lower_bound(found.begin(), found.end(), place);
                if (*where != place) found.insert(where, place);
            }
        }
        void add(const Places &others) {
            for (size_t place : others) add(place);
        }
    };
    static const size_t UNLIMITED = size_t(-1);

    std::string text;
    size_t at = 0;
    std::vector<Sequence> whole;

    [[noreturn]] void broken() const;
    bool more() const { return at < text.size(); }
    char take() {
        if (!more()) broken();
        return text[at++];
    }
    std::vector<Sequence> parseAlternatives() {
        std::vector<Sequence> found(1);
        while (more() && text[at] != ')') {
            if (text[at] == '|') { at++; found.emplace_back(); continue; }
            Node node;
            char c = take();
            if (c == '(') {
                node.alternatives = parseAlternatives();
                if (take() != ')') broken();
            } else {
                node.accepts.assign(256, false);
                if (c == '[') parseSet(node.accepts);
                else node.accepts[(unsigned char)(c == '\\' ? take() : c)] = true;
            }
            parseCount(node);
            found.back().push_back(node);
        }
        return found;
    }
    void parseSet(std::vector<bool> &accepts) {
        bool negated = more() && text[at] == '^';
        if (negated) at++;
        for (char c = take(); c != ']'; c = take()) {
            unsigned char low = (unsigned char)(c == '\\' ? take() : c), high = low;
            if (at + 1 < text.size() && text[at] == '-' && text[at + 1] != ']') {
                at++;
                c = take();
                high = (unsigned char)(c == '\\' ? take() : c);
            }
            if (high < low) broken();
            for (int value = low; value <= high; value++) accepts[size_t(value)] = true;
        }
        if (negated) accepts.flip();
    }
    size_t parseNumber() {
        if (!more() || !std::isdigit((unsigned char)text[at])) broken();
        size_t value = 0;
        while (more() && std::isdigit((unsigned char)text[at])) value = value * 10 + size_t(take() - '0');
        return value;
    }
    void parseCount(Node &node) {
        if (!more()) return;
        char c = text[at];
        if (c == '?') node.least = 0;
        else if (c == '*') node.least = 0, node.most = UNLIMITED;
        else if (c == '+') node.most = UNLIMITED;
        else if (c != '{') return;
        at++;
        if (c != '{') return;
        node.least = node.most = parseNumber();
        if (more() && text[at] == ',') {
            at++;
            node.most = more() && text[at] == '}' ? UNLIMITED : parseNumber();
        }
        if (take() != '}') broken();
    }
    static Places once(const Node &node, const std::string &s, const Places &from) {
        Places to;
        if (!node.alternatives.empty()) {
            for (const Sequence &sequence : node.alternatives) {
                Places ends = follow(sequence, s, from);
                to.add(ends);
            }
        } else {
            for (size_t place : from)
                if (place < s.size() && node.accepts[(unsigned char)s[place]]) to.add(place + 1);
        }
        return to;
    }
    static Places follow(const Sequence &sequence, const std::string &s, Places places) {
        for (const Node &node : sequence) {
            Places reached;
            if (node.least == 0) reached = places;
            for (size_t count = 1; count <= node.most && !places.empty(); count++) {
                places = once(node, s, places);
                if (count < node.least) continue;
                size_t before = reached.size();
                reached.add(places);
                if (reached.size() == before) break;  // nothing new: more rounds find nothing either
            }
            places = reached;
        }
        return places;
    }

public:
    pattern(const std::string &source) : text(source) {
        whole = parseAlternatives();
        if (more()) broken();
    }
    bool matches(const std::string &s) const {
        for (const Sequence &sequence : whole)
            if (follow(sequence, s, Places(0)).has(s.size())) return true;
        return false;
    }
    std::string src() const { return text; }
};

// ---------------------------------------------------------------- streams

class InStream {
    std::string data;
    size_t at = 0;

    static bool digit(char c) { return '0' <= c && c <= '9'; }
    static std::string called(const std::string &variable) { return variable.empty() ? "" : " [name=" + variable + "]"; }
    static std::string numbered(const std::string &variable, size_t index) {
        return variable.empty() ? variable : variable + "[" + std::to_string(index) + "]";
    }
    template <class T>
    void checkRange(T value, T low, T high, const std::string &what, const std::string &variable) {
        if (value < low || value > high)
            quit(_wa, what + called(variable) + " equals to " + vtos(value) + ", violates the range [" + vtos(low) + ", " + vtos(high) + "]");
    }
    void checkPattern(const std::string &value, const pattern &p, const std::string &what, const std::string &variable) {
        if (!p.matches(value))
            quit(_wa, what + called(variable) + " equals to \"" + compress(value) + "\", doesn't correspond to pattern \"" + p.src() + "\"");
    }
    template <class T, class Read>
    std::vector<T> many(size_t count, const std::string &variable, size_t first, Read read) {
        std::vector<T> values;
        for (size_t i = 0; i < count; i++) values.push_back(read(numbered(variable, first + i)));
        return values;
    }

public:
    std::string name;
    TMode mode = _input;
    bool strict = false;
    bool opened = false;

    void open(const std::string &path, const std::string &name_, TMode mode_);
    void reset() { at = 0; }

    [[noreturn]] void quit(TResult result, const std::string &message);
    [[noreturn]] void quits(TResult result, const std::string &message) { quit(result, message); }
    template <class... Args>
    [[noreturn]] void quitf(TResult result, const char *text, Args... args) { quit(result, format(text, args...)); }
    template <class... Args>
    void quitif(bool condition, TResult result, const char *text, Args... args) {
        if (condition) quit(result, format(text, args...));
    }
    template <class... Args>
    void ensuref(bool condition, const char *text, Args... args) {
        if (!condition) quit(_wa, format(text, args...));
    }

    // Single characters; EOFC after the last one.
    char curChar() { return at < data.size() ? data[at] : char(EOFC); }
    char nextChar() { return at < data.size() ? data[at++] : char(EOFC); }
    char readChar() { return nextChar(); }
    char readChar(char wanted) {
        if (at >= data.size() || data[at] != wanted)
            quit(_pe, at >= data.size() ? format("Unexpected end of file, '%c' expected", wanted)
                                        : format("Unexpected character #%d, but '%c' expected", int((unsigned char)data[at]), wanted));
        return data[at++];
    }
    char readSpace() { return readChar(' '); }
    void skipChar() { if (at < data.size()) at++; }
    void unreadChar(char) { if (at > 0) at--; }
    void skipBlanks() { while (at < data.size() && isBlanks(data[at])) at++; }

    // Ends. eof() and eoln() look at the very next character, seek...() skip whitespace before.
    bool eof() { return at >= data.size(); }
    bool seekEof() { skipBlanks(); return eof(); }
    bool eoln() {
        return eof() || data[at] == LF || (data[at] == CR && (at + 1 >= data.size() || data[at + 1] == LF));
    }
    bool seekEoln() {
        while (at < data.size() && (data[at] == SPACE || data[at] == TAB)) at++;
        return eoln();
    }
    void readEof() { if (!eof()) quit(_pe, "Expected EOF"); }
    void readEoln() {
        if (!eoln()) quit(_pe, "Expected EOLN");
        if (at < data.size() && data[at] == CR) at++;
        if (at < data.size() && data[at] == LF) at++;
    }
    void nextLine() { readLine(); }

    // Tokens: up to the next whitespace.
    std::string readToken() {
        if (!strict) skipBlanks();
        if (eof()) quit(_unexpected_eof, "Unexpected end of file - token expected");
        if (isBlanks(data[at])) quit(_pe, "Unexpected white-space - token expected");
        size_t start = at;
        while (at < data.size() && !isBlanks(data[at])) at++;
        return data.substr(start, at - start);
    }
    std::string readWord() { return readToken(); }
    std::string readToken(const pattern &p, const std::string &variable = "") {
        std::string token = readToken();
        checkPattern(token, p, "Token parameter", variable);
        return token;
    }
    std::string readToken(const std::string &p, const std::string &variable = "") { return readToken(pattern(p), variable); }
    std::string readWord(const pattern &p, const std::string &variable = "") { return readToken(p, variable); }
    std::string readWord(const std::string &p, const std::string &variable = "") { return readToken(pattern(p), variable); }
    void readTokenTo(std::string &result) { result = readToken(); }
    void readWordTo(std::string &result) { result = readToken(); }
    void readTokenTo(std::string &result, const std::string &p, const std::string &variable = "") { result = readToken(p, variable); }
    void readWordTo(std::string &result, const std::string &p, const std::string &variable = "") { result = readToken(p, variable); }
    std::vector<std::string> readTokens(int count, int first = 1) {
        return many<std::string>(size_t(count), "", size_t(first), [&](const std::string &) { return readToken(); });
    }
    std::vector<std::string> readTokens(int count, const std::string &p, const std::string &variable = "", int first = 1) {
        pattern compiled(p);
        return many<std::string>(size_t(count), variable, size_t(first), [&](const std::string &n) { return readToken(compiled, n); });
    }
    std::vector<std::string> readWords(int count, int first = 1) { return readTokens(count, first); }
    std::vector<std::string> readWords(int count, const std::string &p, const std::string &variable = "", int first = 1) { return readTokens(count, p, variable, first); }

    // Lines: up to the end of the line, which is read but not returned.
    std::string readLine() {
        if (eof()) quit(_unexpected_eof, "Expected line");
        size_t start = at, end = data.find(LF, at);
        at = end == std::string::npos ? data.size() : end + 1;
        if (end == std::string::npos) end = data.size();
        if (end > start && data[end - 1] == CR) end--;
        return data.substr(start, end - start);
    }
    std::string readString() { return readLine(); }
    std::string readLine(const std::string &p, const std::string &variable = "") {
        std::string line = readLine();
        checkPattern(line, pattern(p), "Line", variable);
        return line;
    }
    std::string readString(const std::string &p, const std::string &variable = "") { return readLine(p, variable); }
    void readLineTo(std::string &result) { result = readLine(); }
    void readStringTo(std::string &result) { result = readLine(); }
    std::vector<std::string> readLines(int count, int first = 1) {
        return many<std::string>(size_t(count), "", size_t(first), [&](const std::string &) { return readLine(); });
    }
    std::vector<std::string> readLines(int count, const std::string &p, const std::string &variable = "", int first = 1) {
        return many<std::string>(size_t(count), variable, size_t(first), [&](const std::string &n) { return readLine(p, n); });
    }
    std::vector<std::string> readStrings(int count, int first = 1) { return readLines(count, first); }
    std::vector<std::string> readStrings(int count, const std::string &p, const std::string &variable = "", int first = 1) { return readLines(count, p, variable, first); }

    // Integers: no plus sign, no leading zeros, no minus zero.
    unsigned long long toUnsigned(const std::string &token, unsigned long long most, size_t start = 0) {
        bool fine = token.size() > start && (token[start] != '0' || (token.size() == start + 1 && start == 0));
        unsigned long long value = 0;
        for (size_t i = start; fine && i < token.size(); i++) {
            unsigned next = unsigned(token[i] - '0');
            fine = digit(token[i]) && value <= (most - next) / 10;
            value = value * 10 + next;
        }
        if (!fine) quit(_pe, "Expected integer, but \"" + compress(token) + "\" found");
        return value;
    }
    long long toSigned(const std::string &token, long long most) {
        if (token.empty() || token[0] != '-') return (long long)toUnsigned(token, (unsigned long long)most);
        return -(long long)(toUnsigned(token, (unsigned long long)most + 1, 1) - 1) - 1;
    }
    int readInt() { return int(toSigned(readToken(), INT_MAX)); }
    int readInt(int low, int high, const std::string &variable = "") {
        int value = readInt();
        checkRange(value, low, high, "Integer parameter", variable);
        return value;
    }
    int readInteger() { return readInt(); }
    int readInteger(int low, int high, const std::string &variable = "") { return readInt(low, high, variable); }
    long long readLong() { return toSigned(readToken(), LLONG_MAX); }
    // Unsigned when a bound is; any other mixture of integer types is signed.
    template <class Low, class High>
    auto readLong(Low low, High high, const std::string &variable = "") {
        if constexpr (std::is_same_v<Low, unsigned long long> || std::is_same_v<High, unsigned long long>) {
            return readUnsignedLong((unsigned long long)low, (unsigned long long)high, variable);
        } else {
            long long value = readLong();
            checkRange(value, (long long)low, (long long)high, "Integer parameter", variable);
            return value;
        }
    }
    unsigned long long readUnsignedLong() { return toUnsigned(readToken(), ULLONG_MAX); }
    unsigned long long readUnsignedLong(unsigned long long low, unsigned long long high, const std::string &variable = "") {
        unsigned long long value = readUnsignedLong();
        checkRange(value, low, high, "Unsigned integer parameter", variable);
        return value;
    }
    std::vector<int> readInts(int count) { return many<int>(size_t(count), "", 1, [&](const std::string &) { return readInt(); }); }
    std::vector<int> readInts(int count, int low, int high, const std::string &variable = "", int first = 1) {
        return many<int>(size_t(count), variable, size_t(first), [&](const std::string &n) { return readInt(low, high, n); });
    }
    std::vector<int> readIntegers(int count) { return readInts(count); }
    std::vector<int> readIntegers(int count, int low, int high, const std::string &variable = "", int first = 1) { return readInts(count, low, high, variable, first); }
    std::vector<long long> readLongs(int count) { return many<long long>(size_t(count), "", 1, [&](const std::string &) { return readLong(); }); }
    std::vector<long long> readLongs(int count, long long low, long long high, const std::string &variable = "", int first = 1) {
        return many<long long>(size_t(count), variable, size_t(first), [&](const std::string &n) { return readLong(low, high, n); });
    }
    std::vector<unsigned long long> readUnsignedLongs(int count, unsigned long long low, unsigned long long high, const std::string &variable = "", int first = 1) {
        return many<unsigned long long>(size_t(count), variable, size_t(first), [&](const std::string &n) { return readUnsignedLong(low, high, n); });
    }

    // Real numbers: finite, decimal.
    double toDouble(const std::string &token) {
        size_t i = 0, digits = 0;
        if (i < token.size() && (token[i] == '-' || token[i] == '+')) i++;
        for (; i < token.size() && digit(token[i]); i++) digits++;
        if (i < token.size() && token[i] == '.')
            for (i++; i < token.size() && digit(token[i]); i++) digits++;
        if (digits > 0 && i < token.size() && (token[i] == 'e' || token[i] == 'E')) {
            size_t exponent = i + 1;
            if (exponent < token.size() && (token[exponent] == '-' || token[exponent] == '+')) exponent++;
            if (exponent < token.size())
                for (i = exponent; i < token.size() && digit(token[i]); i++) {}
        }
        double value = digits > 0 && i == token.size() ? std::strtod(token.c_str(), nullptr) : HUGE_VAL;
        if (!std::isfinite(value)) quit(_pe, "Expected double, but \"" + compress(token) + "\" found");
        return value;
    }
    double readDouble() { return toDouble(readToken()); }
    double readDouble(double low, double high, const std::string &variable = "") {
        double value = readDouble();
        checkRange(value, low, high, "Double parameter", variable);
        return value;
    }
    double readReal() { return readDouble(); }
    double readReal(double low, double high, const std::string &variable = "") { return readDouble(low, high, variable); }
    // With between `least` and `most` digits after the point, and no exponent.
    double readStrictDouble(double low, double high, int least, int most, const std::string &variable = "") {
        std::string token = readToken();
        size_t point = token.find('.');
        int after = point == std::string::npos ? 0 : int(token.size() - point - 1);
        if (token.find_first_not_of("0123456789.-") != std::string::npos || after < least || after > most)
            quit(_pe, format("Expected strict double with %d to %d digits after the point, but \"%s\" found", least, most, compress(token).c_str()));
        double value = toDouble(token);
        checkRange(value, low, high, "Strict double parameter", variable);
        return value;
    }
    double readStrictReal(double low, double high, int least, int most, const std::string &variable = "") { return readStrictDouble(low, high, least, most, variable); }
    std::vector<double> readDoubles(int count) { return many<double>(size_t(count), "", 1, [&](const std::string &) { return readDouble(); }); }
    std::vector<double> readDoubles(int count, double low, double high, const std::string &variable = "", int first = 1) {
        return many<double>(size_t(count), variable, size_t(first), [&](const std::string &n) { return readDouble(low, high, n); });
    }
    std::vector<double> readReals(int count) { return readDoubles(count); }
    std::vector<double> readReals(int count, double low, double high, const std::string &variable = "", int first = 1) { return readDoubles(count, low, high, variable, first); }
};

inline InStream inf, ouf, ans;

inline int stringToInt(InStream &in, const std::string &text) { return int(in.toSigned(text, INT_MAX)); }
inline long long stringToLongLong(InStream &in, const std::string &text) { return in.toSigned(text, LLONG_MAX); }
inline unsigned long long stringToUnsignedLongLong(InStream &in, const std::string &text) { return in.toUnsigned(text, ULLONG_MAX); }
inline double stringToDouble(InStream &in, const std::string &text) { return in.toDouble(text); }

// ---------------------------------------------------------------- results

struct CefTestlibState {
    bool finished = false;
    int testCase = 0;
    std::string resultFile, points;
};
inline CefTestlibState cefTestlib;

[[noreturn]] inline void cefTestlibFinish(TResult result, const std::string &message) {
    static const char *const names[] = {"ok", "wrong answer", "wrong output format", "FAIL", "wrong output format",
                                        "points", "", "", "unexpected eof"};
    std::string text = result >= _partially ? format("partially correct (%d)", int(result) - _partially) : names[result];
    if (result == _points) text += " " + cefTestlib.points;
    if (cefTestlib.testCase > 0 && result != _ok) text += format(" test case %d:", cefTestlib.testCase);
    text += " " + message;
    std::fprintf(stderr, "%s\n", text.c_str());
    if (!cefTestlib.resultFile.empty()) std::ofstream(cefTestlib.resultFile) << text << "\n";
    cefTestlib.finished = true;
    std::cout.flush();
    std::fflush(nullptr);
    std::_Exit(result == _points ? 7 : int(result));
}

inline void pattern::broken() const { cefTestlibFinish(_fail, "the pattern \"" + text + "\" cannot be read"); }

inline void InStream::quit(TResult result, const std::string &message) {
    if (mode != _output && result != _fail) cefTestlibFinish(_fail, message + " (" + name + ")");
    bool good = result == _ok || result == _points || result >= _partially;
    if (good && !ouf.seekEof()) cefTestlibFinish(_dirt, "Extra information in the output file");
    cefTestlibFinish(result, message);
}

inline void InStream::open(const std::string &path, const std::string &name_, TMode mode_) {
    name = name_, mode = mode_;
    std::ifstream file(path, std::ios::binary);
    if (!file) cefTestlibFinish(_fail, "cannot open the file \"" + path + "\" (" + name + ")");
    data.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    at = 0;
    opened = true;
}

[[noreturn]] inline void quit(TResult result, const std::string &message = "") { ouf.quit(result, message); }
[[noreturn]] inline void quits(TResult result, const std::string &message) { ouf.quit(result, message); }
template <class... Args>
[[noreturn]] void quitf(TResult result, const char *text, Args... args) { ouf.quit(result, format(text, args...)); }
template <class... Args>
void quitif(bool condition, TResult result, const char *text, Args... args) {
    if (condition) ouf.quit(result, format(text, args...));
}
template <class Expected, class Found, class... Args>
[[noreturn]] void expectedButFound(TResult result, const Expected &expected, const Found &found, const char *before = "", Args... args) {
    std::string start = format(before, args...);
    ouf.quit(result, (start.empty() ? start : start + " ") + "expected '" + vtos(expected) + "', found '" + vtos(found) + "'");
}
[[noreturn]] inline void quitpi(const std::string &points, const std::string &message = "") {
    cefTestlib.points = points;
    ouf.quit(_points, message);
}
template <class Points>
[[noreturn]] void quitp(Points points, const std::string &message = "") { quitpi(format("%.10g", double(points)), message); }
template <class Points, class First, class... Args>
[[noreturn]] void quitp(Points points, const char *text, First first, Args... args) { quitp(points, format(text, first, args...)); }

inline void cefTestlibEnsure(bool condition, const std::string &message) { if (!condition) ouf.quit(_fail, message); }
#define ensure(condition) cefTestlibEnsure((condition), "Condition failed: \"" #condition "\"")
template <class... Args>
void ensuref(bool condition, const char *text, Args... args) { cefTestlibEnsure(condition, condition ? "" : format(text, args...)); }

inline void setTestCase(int number) { cefTestlib.testCase = number; }
inline void unsetTestCase() { cefTestlib.testCase = 0; }
template <class... Args>
void setName(const char *, Args...) {}

inline void registerTestlibCmd(int argc, char *argv[]) {
    std::atexit([] {
        if (!cefTestlib.finished) cefTestlibFinish(_fail, "Checker must end with quit or quitf call");
    });
    if (argc < 4) cefTestlibFinish(_fail, "usage: checker input output answer");
    if (argc > 4) cefTestlib.resultFile = argv[4];
    inf.open(argv[1], "input", _input);
    ouf.open(argv[2], "output", _output);
    ans.open(argv[3], "answer", _answer);
}
inline void registerTestlib(int argc, ...) {
    std::vector<char *> words(1, const_cast<char *>("checker"));
    va_list list;
    va_start(list, argc);
    for (int i = 0; i < argc; i++) words.push_back(va_arg(list, char *));
    va_end(list);
    registerTestlibCmd(int(words.size()), words.data());
}

// ---------------------------------------------------------------- numbers

// Whether the absolute or the relative error is at most `most`.
inline bool doubleCompare(double expected, double result, double most) {
    if (!std::isfinite(expected) || !std::isfinite(result))
        return (std::isnan(expected) && std::isnan(result)) || expected == result;
    double error = std::fabs(result - expected), slack = 1e-15;
    return error <= most + slack || error <= std::fabs(expected) * most + slack;
}
// The smaller one of the absolute and the relative error.
inline double doubleDelta(double expected, double result) {
    double error = std::fabs(result - expected);
    return std::fabs(expected) > 1e-9 ? std::min(error, std::fabs(error / expected)) : error;
}

// Always the same sequence: a checker must decide alike every time.
class random_t {
    std::uint64_t state = 3905348978240129619ULL;

    unsigned long long bits() {
        std::uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
        return z ^ (z >> 31);
    }

public:
    void setSeed(long long seed) { state = std::uint64_t(seed); }
    double next() { return double(bits() >> 11) / 9007199254740992.0; }
    double next(double high) { return next() * high; }
    double next(double low, double high) { return low + next() * (high - low); }
    long long next(long long count) {
        if (count <= 0) cefTestlibFinish(_fail, "rnd.next(n): n must be positive");
        return (long long)(bits() % (unsigned long long)count);
    }
    long long next(long long low, long long high) {
        if (high < low) cefTestlibFinish(_fail, "rnd.next(from, to): from must not exceed to");
        unsigned long long count = (unsigned long long)high - (unsigned long long)low + 1;
        return (long long)((unsigned long long)low + (count == 0 ? bits() : bits() % count));
    }
    int next(int count) { return int(next((long long)count)); }
    int next(int low, int high) { return int(next((long long)low, (long long)high)); }
    // The largest of |type| + 1 draws, or the smallest for a negative type.
    template <class T>
    T wnext(T count, int type) {
        T best = next(count);
        for (int i = 0; i < std::abs(type); i++) best = type > 0 ? std::max(best, next(count)) : std::min(best, next(count));
        return best;
    }
    template <class T>
    T wnext(T low, T high, int type) { return T(low + wnext(T(high - low + 1), type)); }
    template <class Collection>
    auto any(const Collection &all) -> decltype(*all.begin()) {
        if (all.empty()) cefTestlibFinish(_fail, "rnd.any(): nothing to choose from");
        return *std::next(all.begin(), (std::ptrdiff_t)next((long long)all.size()));
    }
    template <class T>
    std::vector<T> perm(T size, T first = T(0)) {
        std::vector<T> values;
        for (T i = 0; i < size; i++) values.push_back(T(first + i));
        for (size_t i = 1; i < values.size(); i++) std::swap(values[i], values[size_t(next((long long)i + 1))]);
        return values;
    }
};
inline random_t rnd;

template <class Iterator>
void shuffle(Iterator first, Iterator last) {
    for (auto i = std::distance(first, last); i > 1; i--) std::iter_swap(first + (i - 1), first + rnd.next((long long)i));
}

#endif
