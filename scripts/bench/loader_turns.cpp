// Timed segments of loading: reads lines "SIDE SECONDS" from standard input, SIDE one of
//   N       our loader with N threads (0: in the calling thread)
//   copy    a copy of as many bytes as a batch has, from memory to memory: what no loader can beat
//   jpeg    libjpeg-turbo alone on the files of the data set, read beforehand, at full size, in one thread
// and answers each with one JSON line.
#include <jpeglib.h>
#include <omp.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "autotrain/trainer.h"
#include "base/clock.h"
#include "base/files.h"
#include "data/loader.h"
#include "programs.h"
#include "setup/assembly.h"
#include "workloads.h"

namespace autotrain::bench {
namespace {

class LoaderTurns {
 public:
  LoaderTurns(const Recipe& recipe, int64_t batch)
      : device_(open_run_device(recipe)),
        data_(load_data(recipe, *device_)),
        stream_(static_cast<uint64_t>(recipe.seed), data_.train->size(), recipe.data.shuffle),
        batch_(batch),
        root_(recipe.data.train.parameters) {}

  // Samples per second.
  double segment(const std::string& side, double seconds) {
    if (side == "copy") return copy(seconds);
    if (side == "jpeg") return decode(seconds);
    return load(std::stoll(side), seconds);
  }

 private:
  double load(int64_t workers, double seconds) {
    const int64_t start = position_;
    position_ += 64 * batch_;  // another part of the data every time
    Loader loader(*data_.train, stream_, endless_windows(*data_.train, stream_, {batch_, batch_}, start),
                  {.workers = workers, .prefetch = std::max<int64_t>(2, workers)});
    loader.next();
    const Stopwatch watch;
    int64_t samples = 0;
    do {
      samples += loader.next()->samples;
    } while (watch.seconds() < seconds);
    return static_cast<double>(samples) / watch.seconds();
  }

  double copy(double seconds) {
    if (!sample_.inputs.defined()) {
      Loader loader(*data_.train, stream_, endless_windows(*data_.train, stream_, {batch_, batch_}, 0),
                    {.workers = 0});
      sample_ = *loader.next();
      target_ = torch::empty_like(sample_.inputs);
    }
    const Stopwatch watch;
    int64_t samples = 0;
    do {
      std::memcpy(target_.mutable_data_ptr(), sample_.inputs.const_data_ptr(), sample_.inputs.nbytes());
      samples += batch_;
    } while (watch.seconds() < seconds);
    return static_cast<double>(samples) / watch.seconds();
  }

  double decode(double seconds) {
    if (files_.empty()) {
      for (const auto& entry :
           std::filesystem::recursive_directory_iterator(std::get<std::string>(root_.at("root")))) {
        if (entry.path().extension() == ".jpg") files_.push_back(read_file(entry.path()));
      }
    }
    const Stopwatch watch;
    int64_t samples = 0;
    do {
      decode_one(files_[static_cast<size_t>(samples) % files_.size()]);
      ++samples;
    } while (watch.seconds() < seconds);
    return static_cast<double>(samples) / watch.seconds();
  }

  void decode_one(const std::string& bytes) {
    jpeg_decompress_struct jpeg{};
    jpeg_error_mgr errors{};
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&jpeg);
    jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&jpeg, TRUE);
    jpeg_start_decompress(&jpeg);
    const size_t row_bytes = size_t{jpeg.output_width} * static_cast<size_t>(jpeg.output_components);
    pixels_.resize(row_bytes * jpeg.output_height);
    while (jpeg.output_scanline < jpeg.output_height) {
      JSAMPROW row = pixels_.data() + row_bytes * jpeg.output_scanline;
      jpeg_read_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_decompress(&jpeg);
    jpeg_destroy_decompress(&jpeg);
  }

  const std::unique_ptr<Device> device_;
  RunData data_;
  Stream stream_;
  int64_t batch_;
  std::map<std::string, Value> root_;
  int64_t position_ = 0;
  Batch sample_;
  torch::Tensor target_;
  std::vector<std::string> files_;
  std::vector<unsigned char> pixels_;
};

}  // namespace

int loader_turns(int argc, char** argv) {
  const Recipe recipe = load_recipe(argument(argc, argv, "recipe", ""));
  const auto device = open_run_device(recipe);
  omp_set_num_threads(1);
  LoaderTurns turns(recipe, std::stoll(argument(argc, argv, "batch", "256")));
  std::string side;
  for (double seconds = 0; std::cin >> side >> seconds;) {
    const nlohmann::ordered_json line = {{"side", side},
                                         {"samples_per_second", turns.segment(side, seconds)}};
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace autotrain::bench
