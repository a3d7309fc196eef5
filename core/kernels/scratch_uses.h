// Who uses which scratch slot (runtime/scratch.h). Buffers alive at the same time on one thread need different slots.
#pragma once

namespace openbnns {

enum ScratchUse {
  kMatrixA,  // packed operands of a matrix product
  kMatrixB,
  kOutputTile,    // a tile of output in blocks of 16 channels, before it goes to planes
  kWeights,       // packed weights, shared by all threads of a call
  kBias,          // bias padded to whole blocks, shared
  kInputBand,     // packed rows of the input image
  kGradientBand,  // packed rows of the output gradient
  kPartialSums,   // weight gradients of parts of the batch, shared
  kPatches,       // [tap][pixel] matrix of convolutions with few channels
  kActivated,     // dz = dy * f'(y) of the rows in hand
  kPlaneSums,     // bias gradients in the making
  kLookups,       // positions of an embedding by entry, shared
  kLookupBounds,  // where those of each entry begin, shared
};

}  // namespace openbnns
