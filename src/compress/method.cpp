#include "compress/method.h"

#include <algorithm>
#include <array>

#include "autotrain/error.h"
#include "base/text.h"

namespace autotrain {
namespace {

struct MethodWord {
  const char* word;
  Compression kind;
};

constexpr std::array kMethodWords = {MethodWord{"int8", Compression::kInt8},
                                     MethodWord{"int8-weights", Compression::kInt8Weights},
                                     MethodWord{"int4-weights", Compression::kInt4Weights},
                                     MethodWord{"2:4", Compression::kSparse},
                                     MethodWord{"channels", Compression::kChannels},
                                     MethodWord{"heads", Compression::kHeads}};

constexpr std::array<int64_t, 3> kGroups = {32, 64, 128};  // those of LibTorch's kernel

[[noreturn]] void fail_method(const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kUsage, "--methods", what, hint);
}

void read_group(const std::string& number, CompressionMethod& method) {
  if (parse_integer(number, method.group) && std::ranges::find(kGroups, method.group) != kGroups.end())
    return;
  fail_method(cat(quote(number), " is no size of a group of inputs"), "give int4-weights:32, :64 or :128");
}

void read_share(const std::string& word, const std::string& number, CompressionMethod& method) {
  if (parse_real(number, method.share) && method.share > 0 && method.share < 1) return;
  fail_method(cat(quote(number), " is no share of the ", word, " that can go"),
              cat("give a number between 0 and 1: ", word, ":0.5 leaves out half of them"));
}

CompressionMethod parse_method(const std::string& words) {
  const size_t colon = words == "2:4" ? std::string::npos : words.find(':');
  const std::string word = words.substr(0, colon);
  const auto* const row =
      std::ranges::find_if(kMethodWords, [&](const MethodWord& each) { return word == each.word; });
  if (row == kMethodWords.end()) {
    std::vector<std::string> known;
    for (const MethodWord& each : kMethodWords) known.emplace_back(each.word);
    fail_method(cat(quote(words), " is no way to make weights smaller"),
                "give some of " + join_choices(known));
  }
  CompressionMethod method{.kind = row->kind, .name = words};
  const bool has_number = colon != std::string::npos;
  const std::string number = has_number ? words.substr(colon + 1) : "";
  if (row->kind == Compression::kChannels || row->kind == Compression::kHeads) {
    read_share(word, number, method);
  } else if (has_number && row->kind == Compression::kInt4Weights) {
    read_group(number, method);
  } else if (has_number) {
    fail_method(cat(word, " takes no number"), "give " + word);
  }
  return method;
}

}  // namespace

std::string CompressionMethod::file_name() const {
  std::string file = name;
  std::ranges::replace(file, ':', '-');
  return file + ".safetensors";
}

std::vector<CompressionMethod> parse_methods(const std::string& words) {
  std::vector<CompressionMethod> methods;
  for (const std::string& each : split(words, ',')) {
    const std::string word(trim(each));
    const bool again = std::ranges::any_of(methods, [&](const auto& other) { return other.name == word; });
    if (again) fail_method(cat(quote(word), " is named twice"), "name each once");
    methods.push_back(parse_method(word));
  }
  return methods;
}

}  // namespace autotrain
