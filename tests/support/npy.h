#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace autotrain::test {

/// The dictionary of a `.npy` header.
inline std::string npy_dictionary(const std::string& descr, const std::string& shape,
                                  const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

/// A `.npy` file of a header and content that need not fit each other.
inline std::string npy_file(const std::string& dictionary, const std::string& content, char version = 1) {
  std::string length;
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    length += static_cast<char>((dictionary.size() + 1) >> 8 * i);
  return std::string("\x93NUMPY") + version + '\0' + length + dictionary + "\n" + content;
}

/// The bytes of numbers.
template <class Number>
std::string bytes_of_numbers(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

}  // namespace autotrain::test
