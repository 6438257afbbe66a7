#pragma once

#include <locale>
#include <string>

namespace autotrain::test {

/// A global locale of numbers such as 1.2.3,5 until the scope ends: every digit is a group, so that even
/// small numbers show it. No locale of the system is needed for it.
class LocaleScope {
 public:
  LocaleScope() : before_(std::locale::global(std::locale(std::locale::classic(), new Numbers))) {}
  ~LocaleScope() { std::locale::global(before_); }
  LocaleScope(const LocaleScope&) = delete;
  LocaleScope& operator=(const LocaleScope&) = delete;

 private:
  struct Numbers final : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\1"; }
  };

  std::locale before_;
};

}  // namespace autotrain::test
