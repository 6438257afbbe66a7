#include "base/flat_layout.h"

#include <gtest/gtest.h>

#include "support/support.h"

namespace autotrain {
namespace {

TEST(FlatLayout, PiecesOfAllPartsAreAllElementsOnce) {
  for (const int64_t parts : {1, 2, 3, 8}) {
    const torch::Tensor image = torch::rand({3, 5, 2, 7}).contiguous(torch::MemoryFormat::ChannelsLast);
    const std::vector<NamedTensor> tensors = {{"image", image},
                                              {"scalar", torch::rand({})},
                                              {"matrix", torch::rand({40, 33})},
                                              {"none", torch::rand({0})}};
    const FlatLayout layout(tensors, parts);
    ASSERT_EQ(layout.elements() % (16 * parts), 0);
    torch::Tensor flat = torch::full({layout.elements()}, -1.0);
    for (int64_t part = 0; part < parts; ++part) {
      for (const TensorPiece& piece : layout.pieces_of(part)) {
        torch::Tensor place = layout.view(flat, piece);
        EXPECT_TRUE(place.eq(-1).all().item<bool>()) << "twice";
        EXPECT_EQ(place.storage_offset() / (layout.elements() / parts), part);
        place.copy_(elements_of(tensors[piece.tensor].tensor, piece));
      }
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(layout.view(flat, i).equal(tensors[i].tensor)) << tensors[i].name << " in " << parts;
    }
    EXPECT_EQ(layout.view(flat, 0).strides(), image.strides());
  }
}

}  // namespace
}  // namespace autotrain
