// Numerics that GPU kernels rely on, checked on the host: tiled products, compensated sums, half types,
// softmax, a work queue that many threads pull from. Usage: test_numerics JUNIT-FILE
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void check(bool ok, const std::string& what) {
    if (!ok) throw std::runtime_error(what);
}

std::vector<float> random_floats(std::size_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> values(-1.0f, 1.0f);
    std::vector<float> result(count);
    std::generate(result.begin(), result.end(), [&] { return values(engine); });
    return result;
}

// A tiled float32 product against a double one: the error stays within what the inner sum allows.
void tiled_product(int n, int tile) {
    const auto a = random_floats(std::size_t(n) * n, 1), b = random_floats(std::size_t(n) * n, 2);
    std::vector<float> c(std::size_t(n) * n, 0.0f);
    for (int i0 = 0; i0 < n; i0 += tile)
        for (int k0 = 0; k0 < n; k0 += tile)
            for (int j0 = 0; j0 < n; j0 += tile)
                for (int i = i0; i < std::min(i0 + tile, n); ++i)
                    for (int k = k0; k < std::min(k0 + tile, n); ++k)
                        for (int j = j0; j < std::min(j0 + tile, n); ++j)
                            c[std::size_t(i) * n + j] += a[std::size_t(i) * n + k] * b[std::size_t(k) * n + j];
    double worst = 0.0;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
            double exact = 0.0;
            for (int k = 0; k < n; ++k) exact += double(a[std::size_t(i) * n + k]) * b[std::size_t(k) * n + j];
            worst = std::max(worst, std::abs(exact - c[std::size_t(i) * n + j]));
        }
    check(worst < 1.2e-7 * n, "error " + std::to_string(worst) + " at n = " + std::to_string(n));
}

// Kahan's sum keeps what a plain float32 sum of many small values loses.
void compensated_sum() {
    const int count = 20'000'000;
    float plain = 0.0f, sum = 0.0f, rest = 0.0f;
    for (int i = 0; i < count; ++i) {
        plain += 0.1f;
        const float y = 0.1f - rest;
        const volatile float t = sum + y;
        rest = (t - sum) - y;
        sum = t;
    }
    const double exact = count * double(0.1f);
    check(std::abs(sum - exact) / exact < 1e-6, "the compensated sum is off: " + std::to_string(sum));
    check(std::abs(plain - exact) / exact > 1e-3, "the plain sum is too good to be true");
}

std::uint16_t to_bfloat16(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (std::isnan(value)) return std::uint16_t((bits >> 16) | 0x40);
    return std::uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float from_bfloat16(std::uint16_t half) {
    const std::uint32_t bits = std::uint32_t(half) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// Every bfloat16 survives the way to float32 and back; rounding goes to the nearest, ties to even.
void bfloat16_round_trip() {
    for (std::uint32_t half = 0; half <= 0xffff; ++half) {
        const float value = from_bfloat16(std::uint16_t(half));
        if (std::isnan(value)) {
            check(std::isnan(from_bfloat16(to_bfloat16(value))), "a NaN became a number");
        } else {
            check(to_bfloat16(value) == half, "no round trip for " + std::to_string(half));
        }
    }
    for (const float value : random_floats(2'000'000, 3)) {
        const float error = std::abs(from_bfloat16(to_bfloat16(value)) - value);
        check(error <= std::abs(value) / 256, "rounded too far: " + std::to_string(value));
    }
}

// softmax with the maximum taken out stays finite, sums to one and keeps the order.
void stable_softmax() {
    for (const float scale : {1.0f, 100.0f, 10'000.0f}) {
        auto x = random_floats(200'000, 4);
        for (float& value : x) value *= scale;
        const float top = *std::max_element(x.begin(), x.end());
        double sum = 0.0;
        std::vector<double> y;
        for (const float value : x) {
            y.push_back(std::exp(double(value) - top));
            sum += y.back();
        }
        double total = 0.0;
        for (double& value : y) total += value /= sum;
        check(std::abs(total - 1.0) < 1e-9, "sums to " + std::to_string(total));
        check(std::max_element(x.begin(), x.end()) - x.begin() == std::max_element(y.begin(), y.end()) - y.begin(),
              "the order changed");
    }
}

// Each of many entries is taken by exactly one of several threads, and none is left.
void one_queue_many_threads() {
    const int count = 1'000'000;
    std::atomic<int> next{0};
    std::vector<std::uint8_t> taken(count, 0);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = next++; i < count; i = next++) ++taken[std::size_t(i)];
        });
    for (auto& thread : threads) thread.join();
    check(std::all_of(taken.begin(), taken.end(), [](std::uint8_t n) { return n == 1; }), "taken twice or never");
}

struct Case {
    const char* name;
    std::function<void()> run;
};

}  // namespace

int main(int argc, char** argv) {
    const std::vector<Case> cases = {
        {"tiled_product_small", [] { tiled_product(97, 16); }},
        {"tiled_product_large", [] { tiled_product(512, 64); }},
        {"compensated_sum", compensated_sum},
        {"bfloat16_round_trip", bfloat16_round_trip},
        {"stable_softmax", stable_softmax},
        {"one_queue_many_threads", one_queue_many_threads},
    };
    int failures = 0;
    std::string body;
    for (const auto& test : cases) {
        const auto start = std::chrono::steady_clock::now();
        std::string wrong;
        try {
            test.run();
        } catch (const std::exception& error) {
            wrong = error.what();
            ++failures;
        }
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        std::printf("%-24s %6.2f s  %s\n", test.name, seconds, wrong.empty() ? "passed" : wrong.c_str());
        // Names and messages are ours and hold nothing that XML would need escaped.
        body += std::string("<testcase classname=\"core\" name=\"") + test.name + "\" time=\"" +
                std::to_string(seconds) + "\">" +
                (wrong.empty() ? "" : "<failure message=\"" + wrong + "\"/>") + "</testcase>\n";
    }
    if (argc > 1) {
        std::FILE* file = std::fopen(argv[1], "w");
        if (!file) return std::perror(argv[1]), 2;
        std::fprintf(file, "<testsuites><testsuite name=\"core\" tests=\"%zu\" failures=\"%d\" errors=\"0\">\n%s"
                           "</testsuite></testsuites>\n", cases.size(), failures, body.c_str());
        if (std::fclose(file) != 0) return std::perror(argv[1]), 2;
    }
    return failures ? 1 : 0;
}
