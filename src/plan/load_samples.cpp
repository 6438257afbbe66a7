#include "plan/load_samples.h"

#include "data/loader.h"

namespace autotrain {

Batch load_samples(Workbench& bench, const Dataset& data, const Piece& places) {
  Loader loader(data, Stream(0, data.size(), /*shuffle=*/false), repeated({places}),
                {.workers = 0, .prefetch = 0, .channels_last = bench.loader.channels_last});
  return bench.device->upload(*loader.next());
}

}  // namespace autotrain
