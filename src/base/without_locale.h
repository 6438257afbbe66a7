#pragma once

#include <locale>
#include <utility>

namespace autotrain {

/// A stream of the standard library whose text is the same everywhere, whatever locale the program that
/// embeds this one has set with std::locale::global: no grouping of digits, no decimal comma.
template <class Stream>
class WithoutLocale : public Stream {
 public:
  template <class... Arguments>
  explicit WithoutLocale(Arguments&&... arguments) : Stream(std::forward<Arguments>(arguments)...) {
    this->imbue(std::locale::classic());
  }
};

}  // namespace autotrain
