// One thread encodes every line of a file, again and again; prints a JSON line: texts, tokens, the seconds of
// the fastest pass.  bench/against_tokenizers.py calls it.
//   tokenizer_bench MODEL_FOLDER FILE [passes]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/tokenizers/tokenizer.h"

int main(int argc, char** argv) {
  try {
    if (argc < 3) lathe::fail(lathe::ErrorCode::kUsage, "tokenizer_bench MODEL_FOLDER FILE [passes]");
    const auto tokenizer = lathe::Tokenizer::load(argv[1]);
    std::ifstream in(argv[2]);
    std::vector<std::string> texts;
    for (std::string line; std::getline(in, line);) texts.push_back(line);
    double best = std::numeric_limits<double>::infinity();
    size_t tokens = 0;
    for (int pass = argc > 3 ? std::stoi(argv[3]) : 5; pass > 0; --pass) {
      tokens = 0;
      const auto begin = std::chrono::steady_clock::now();
      for (const std::string& text : texts) tokens += tokenizer.encode(text).size();
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      best = std::min(best, seconds.count());
    }
    fmt::print("{{\"texts\": {}, \"tokens\": {}, \"seconds\": {}}}\n", texts.size(), tokens, best);
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 1;
  }
}
