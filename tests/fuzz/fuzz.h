#pragma once

#include <unistd.h>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "recipe/keys.h"

// The fuzzers share this. Whatever the bytes are, there is an Error with a message or a result, never
// anything else.
namespace autotrain::fuzz {

/// Runs `action`; only an Error may come out of it.
template <class Action>
void expect_error_or_result(Action action) {
  static const bool quiet = (log::set_sink([](const log::Record&) {}, log::Level::kError), true);
  (void)quiet;
  try {
    action();
  } catch (const Error& error) {
    if (std::string(error.what()).empty()) __builtin_trap();
  }
}

/// The bytes as a file, overwritten by every call.
inline std::filesystem::path as_file(const uint8_t* data, size_t size) {
  static const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("autotrain-fuzz-" + std::to_string(::getpid()));
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  return path;
}

/// A row of every kind of key.
inline Catalog catalog() {
  const auto row = [](const char* name) {
    return ChoiceSpec{
        name,
        "A row.",
        {integer_key("count", "Whole.", 1).from(0, 1000), real_key("rate", "Real.", 0.5).from(0, 1),
         bool_key("flag", "Yes or no.", false), text_key("path", "Text.", std::string("x")),
         word_key("kind", "A word.", {"a", "b"}, "a"),
         list_key(KeyKind::kIntegerList, "shape", "Numbers.").from(1, 100)}};
  };
  const auto rows = [&](const char* usual) {
    return std::vector<ChoiceSpec>{row("one"), row("two"), row(usual)};
  };
  return {rows("fashion_mnist"), rows("cnn"),    rows("cross_entropy"), rows("adamw"),
          rows("constant"),      rows("linear"), rows("binary")};
}

}  // namespace autotrain::fuzz
