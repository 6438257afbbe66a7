#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autotrain/data.h"

namespace autotrain {

/// A data set implements this, too, where it knows its samples or its classes by names.
class Named {
 public:
  virtual ~Named() = default;

  /// Whether `sample_name` may be asked.
  virtual bool names_samples() const { return false; }

  /// The path of a sample's file, below the data set's folder. Precondition: names_samples.
  virtual std::string sample_name(int64_t index) const {
    (void)index;
    return "";
  }

  /// How files of another size or kind than samples become such, where there are some: "94 of the first 100
  /// images …"; "": they are taken as they are. Reads some of them.
  virtual std::string changes_of_files() const { return ""; }

  /// The names of the classes, by number; empty where they are numbers only.
  virtual std::vector<std::string> class_names() const { return {}; }
};

/// The names of a data set's classes, whatever stands around it; empty where it has none.
std::vector<std::string> class_names_in(const Dataset& data);

/// The name of its sample, likewise; "" where samples have none.
std::string sample_name_in(const Dataset& data, int64_t index);

}  // namespace autotrain
