#include "checkpoint/foreign_weights.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "autotrain/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

namespace autotrain {
namespace fs = std::filesystem;
namespace {

constexpr const char* kPickleIndex = ".bin.index.json";

struct ForeignFormat {
  const char* what;
  std::vector<std::string_view> endings;
  std::vector<std::string_view> beginnings;
  const char* hint = "take the model's safetensors, which most that publish it offer beside this file";
  bool is_pickle = false;  // which Python turns into safetensors in two lines
};

const std::vector<ForeignFormat>& foreign_formats() {
  static const std::vector<ForeignFormat> formats = {
      {.what = "is a pickle of PyTorch, which may run any code as it is read, so that it is not",
       .endings = {kPickleIndex, ".bin", ".pt", ".pth", ".ckpt", ".pkl"},
       .beginnings = {"PK\x03\x04", "\x80\x02", "\x80\x03", "\x80\x04", "\x80\x05"},
       .is_pickle = true},
      {.what = "is GGUF, llama.cpp's format, whose weights are rounded and named in a way of its own",
       .endings = {".gguf"},
       .beginnings = {"GGUF"}},
      {.what = "is ONNX, a graph and not weights by their names",
       .endings = {".onnx"},
       .beginnings = {},
       .hint = "take the module of PyTorch that it was made of: python -m autotrain_export writes it for "
               "model: exported"},
      {.what = "is Flax's msgpack",
       .endings = {".msgpack"},
       .beginnings = {},
       .hint = "take the model's safetensors; transformers writes them by "
               "AutoModel.from_pretrained(FOLDER, from_flax=True).save_pretrained(OTHER)"},
      {.what = "is HDF5, of Keras or TensorFlow", .endings = {".h5", ".keras"}, .beginnings = {"\x89HDF"}},
      {.what = "is a pointer of Git LFS, a few lines in the place of the weights",
       .endings = {},
       .beginnings = {"version https://git-lfs"},
       .hint = "run git lfs pull in its folder, or download the file itself"}};
  return formats;
}

bool ends_so(const ForeignFormat& format, const fs::path& path) {
  const std::string name = lower(path.filename().string());
  return std::ranges::any_of(format.endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

// Safetensors begin with the length of their header, whose upper bytes are zero, and go on with JSON.
bool may_be_safetensors(std::string_view first) {
  constexpr size_t kLength = 8;
  return first.size() > kLength &&
         first.substr(kLength / 2, kLength / 2) == std::string_view("\0\0\0\0", 4) && first[kLength] == '{';
}

bool begins_so(const ForeignFormat& format, std::string_view first) {
  return std::ranges::any_of(format.beginnings,
                             [&](std::string_view each) { return first.starts_with(each); });
}

std::string first_bytes(const fs::path& path) {
  std::string bytes(64, '\0');
  InputFile file(path);
  bytes.resize(file.read(bytes.data(), bytes.size()));
  return bytes;
}

// Python's literals of texts are read as JSON's are.
std::string python_text(const fs::path& path) {
  return words_of_json(path.string());
}

// What makes safetensors of a pickle, or of all those that an index names.
std::string conversion(const fs::path& path) {
  const std::string name = path.filename().string();
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const bool several = name.ends_with(kPickleIndex);
  const std::string stem =
      several ? name.substr(0, name.size() - std::strlen(kPickleIndex)) : path.stem().string();
  const fs::path made = path.parent_path() / ((several ? "model" : stem) + ".safetensors");
  const std::string files = several
                                ? cat("glob.glob(", python_text(stem + "-*-of-*.bin"), ", root_dir=folder)")
                                : cat("[", python_text(path.filename()), "]");
  return cat(
      "convert it in Python where you trust who made it (of a training checkpoint, the part that is its "
      "state_dict):\n",
      "    import glob, torch, safetensors.torch; folder = ", python_text(folder), "\n",
      "    safetensors.torch.save_file({k: v.contiguous().clone() for f in ", files,
      " for k, v in torch.load(folder + \"/\" + f, map_location=\"cpu\", weights_only=True).items()}, ",
      python_text(made), ")");
}

}  // namespace

bool is_called_foreign(const fs::path& path) {
  return std::ranges::any_of(foreign_formats(),
                             [&](const ForeignFormat& format) { return ends_so(format, path); });
}

void refuse_foreign_weights(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return;
  const std::string first = first_bytes(path);
  if (may_be_safetensors(first)) return;  // whatever it is called
  const auto by_bytes = std::ranges::find_if(
      foreign_formats(), [&](const ForeignFormat& format) { return begins_so(format, first); });
  const auto by_ending = std::ranges::find_if(
      foreign_formats(), [&](const ForeignFormat& format) { return ends_so(format, path); });
  const auto found = by_bytes != foreign_formats().end() ? by_bytes : by_ending;
  if (found == foreign_formats().end()) return;
  throw Error(ExitCode::kBadData, path.string(), found->what,
              found->is_pickle ? conversion(path) : found->hint);
}

}  // namespace autotrain
