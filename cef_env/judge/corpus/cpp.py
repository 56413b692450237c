"""The same for C++: right, wrong, slow, hungry, crashing, and what must not compile.

Standard headers by name rather than `bits/stdc++.h`, which alone takes a second to compile. Does not hold
programs for one version of the standard.
"""

from cef_env.judge.corpus.labelled import (
    ACCEPTED,
    MEMORY_LIMIT,
    NO_COMPILE,
    OUTPUT_LIMIT,
    RUNTIME_ERROR,
    SUM,
    SUM_3,
    TIME_LIMIT,
    WRONG_ANSWER,
    Labelled,
    small_problem,
)

_SMALL_MEMORY = small_problem(("3\n1 2 3\n", "6\n"), memory_mb=32)
_LARGE = small_problem(("100000\n" + "7 " * 100_000, "700000\n"))

_ACCEPTED = {
    "cpp_sum": """
#include <iostream>
int main() { int n; long long s = 0, x; std::cin >> n; while (std::cin >> x) s += x; std::cout << s; }
""",
    "cpp_everything_header": """
#include <bits/stdc++.h>
using namespace std;
int main() {
    int n; cin >> n;
    vector<int> a(n);
    for (auto& x : a) cin >> x;
    cout << accumulate(a.begin(), a.end(), 0) << "\\n";
}
""",
    "cpp_scanf_and_printf": """
#include <cstdio>
int main() { int n, x, s = 0; scanf("%d", &n); while (n--) { scanf("%d", &x); s += x; } printf("%d\\n", s); }
""",
    "cpp_thread": """
#include <cstdio>
#include <thread>
int main() { int s = 0; std::thread t([&] { s = 6; }); t.join(); printf("%d\\n", s); }
""",
    "cpp_exit_0": '#include <cstdio>\n#include <cstdlib>\nint main() { puts("6"); exit(0); }',
    "cpp_exception_caught": """
#include <cstdio>
#include <vector>
#include <stdexcept>
int main() { std::vector<int> v; try { v.at(5); } catch (const std::out_of_range&) { puts("6"); } }
""",
    "cpp_recursion_100_000": """
#include <cstdio>
int depth(int n, volatile int* p) { volatile int x = n; return n == 0 ? *p - *p : 1 + depth(n - 1, &x); }
int main() { volatile int z = 0; puts(depth(100000, &z) == 100000 ? "6" : "0"); }
""",
    "cpp_large_array_on_the_stack": """
#include <cstdio>
int main() {
    volatile char a[48 << 20];
    for (int i = 0; i < (48 << 20); i += 4096) a[i] = 6;
    printf("%d", a[4096]);
}
""",
}

_WRONG = {
    "cpp_counts_the_last_twice": """
#include <iostream>
int main() {
    int n, x, s = 0;
    std::cin >> n;
    while (!std::cin.eof()) { std::cin >> x; s += x; }
    std::cout << s + x;
}
""",
    "cpp_prints_nothing": "int main() {}",
    "cpp_buffer_lost_by_quick_exit": """
#include <cstdio>
#include <cstdlib>
int main() { printf("6\\n"); _Exit(0); }
""",
}

_CRASHES = {
    "cpp_null_pointer": "int main() { volatile int* p = nullptr; return *p; }",
    "cpp_abort": "#include <cstdlib>\nint main() { abort(); }",
    "cpp_assertion": "#include <cassert>\nint main() { volatile int zero = 0; assert(zero == 1); }",
    "cpp_return_1": '#include <cstdio>\nint main() { puts("6"); return 1; }',
    "cpp_uncaught_exception": '#include <stdexcept>\nint main() { throw std::runtime_error("no"); }',
}

_SLOW = {
    "cpp_busy_loop": "int main() { volatile int x = 0; for (;;) x = x + 1; }",
    "cpp_quadratic": """
#include <cstdio>
int main() {
    volatile unsigned s = 0;
    for (unsigned i = 0; i < 100000; i++) for (unsigned j = 0; j < 100000; j++) s = s + (i ^ j);
    puts("6");
}
""",
}

_HUNGRY = {
    "cpp_allocates_and_touches": """
#include <vector>
int main() { std::vector<std::vector<char>> all; for (;;) all.emplace_back(1 << 20, 'x'); }
""",
}

_NO_COMPILE = {
    "cpp_missing_semicolon": "int main() { return 0 }",
    "cpp_undeclared": "int main() { return nothing; }",
    "cpp_no_main": "int solve() { return 6; }",
    "cpp_unknown_header": "#include <no_such_header>\nint main() {}",
    "cpp_python_program": "print(6)",
    "cpp_bomb_templates": """
template <int N> struct A { static const int v = A<N + 1>::v; };
int main() { return A<0>::v; }
""",
    "cpp_bomb_constexpr": """
constexpr long f(long n) { return f(n + 1) + 1; }
int main() { constexpr long x = f(0); return x; }
""",
    "cpp_bomb_endless_include": '#include "/dev/zero"\nint main() {}',
    "cpp_bomb_large_object": "char a[1ull << 34] = {1};\nint main() {}",
    "cpp_include_of_the_host": '#include "/etc/passwd"\nint main() {}',
}

PROGRAMS: tuple[Labelled, ...] = (
    *(
        Labelled(name, program, SUM, verdicts, language="cpp17", note=note)
        for programs, verdicts, note in (
            (_ACCEPTED, ACCEPTED, "right"),
            (_WRONG, WRONG_ANSWER, "ends well, answers wrong"),
            (_CRASHES, RUNTIME_ERROR, "ends with a status that is not 0, or by a signal"),
            (_SLOW, TIME_LIMIT, "busy far beyond the CPU limit"),
            (_HUNGRY, MEMORY_LIMIT, "far beyond the memory limit"),
            (_NO_COMPILE, NO_COMPILE, "does not compile, and does no harm trying"),
        )
        for name, program in programs.items()
    ),
    Labelled(
        "cpp_output_flood",
        '#include <cstdio>\nint main() { for (;;) puts("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"); }',
        SUM,
        OUTPUT_LIMIT,
        language="cpp17",
        note="ended by a signal of the kernel, and yet no crash",
    ),
    Labelled(
        "cpp_stack_overflow",
        """
#include <cstdio>
int depth(volatile int* p) { volatile int x[1024]; x[0] = *p; return depth(x) + x[0]; }
int main() { volatile int z = 0; printf("%d", depth(&z)); }
""",
        SUM,
        RUNTIME_ERROR | MEMORY_LIMIT,
        language="cpp17",
        note="the end of the stack, or the memory limit where the stack may grow past it",
    ),
    Labelled(
        "cpp_static_array_untouched",
        """
#include <cstdio>
static char a[64 << 20];
int main() { a[0] = 1; puts("6"); }
""",
        _SMALL_MEMORY,
        ACCEPTED,
        language="cpp17",
        weaker=MEMORY_LIMIT | RUNTIME_ERROR,
        note="64 MiB that nobody touches, under 32: a limit on data instead of a control group may refuse it",
    ),
    Labelled(
        "cpp_static_array_touched",
        """
#include <cstdio>
static char a[64 << 20];
int main() { for (int i = 0; i < (64 << 20); i += 4096) a[i] = 1; printf("%d", 5 + a[4096]); }
""",
        _SMALL_MEMORY,
        MEMORY_LIMIT,
        language="cpp17",
    ),
    Labelled(
        "cpp_fast_reading",
        """
#include <iostream>
int main() {
    std::ios::sync_with_stdio(false);
    std::cin.tie(nullptr);
    int n; long long s = 0, x;
    std::cin >> n;
    while (n-- && std::cin >> x) s += x;
    std::cout << s << "\\n";
}
""",
        _LARGE,
        ACCEPTED,
        language="cpp17",
    ),
    Labelled(
        "cpp_wrong_on_the_last_test_only",
        """
#include <iostream>
int main() { int n, x, s = 0; std::cin >> n; while (std::cin >> x) s += x; std::cout << (n < 5 ? s : 0); }
""",
        SUM_3,
        WRONG_ANSWER,
        language="cpp17",
        passed=2,
    ),
)
