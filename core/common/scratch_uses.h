// Who uses which scratch slot (runtime/scratch.h). Buffers alive at the same time on one thread need different slots.
#pragma once

namespace openbnns {

enum ScratchUse {
  kMatrixA,  // packed operands of a matrix product
  kMatrixB,
  kOutputTile,    // a tile of output in blocks of 16 channels, before it goes to planes
  kWeights,       // packed weights, shared by all threads of a call
  kWeightsBlock,  // of 16 output channels, before two channels become one
  kSampleBands,   // packed rows of two images, before they become one
  kBias,          // bias padded to whole blocks, shared
  kInputBand,     // packed rows of the input image
  kGradientBand,  // packed rows of the output gradient
  kPartialSums,   // weight gradients of parts of the batch, or sums of samples side by side, shared
  kPatches,       // [tap][pixel] matrix of convolutions with few channels, or pixels of one sample of several
  kActivated,     // dz = dy * f'(y) of the current rows
  kPlaneSums,     // unfinished bias gradients
  kChunkTable,    // where the chunks of each tensor of a list begin, shared
  kFactors,       // what tensors or slices are multiplied by, shared
  kLookups,       // positions of an embedding by entry, shared
  kLookupBounds,  // where those of each entry begin, shared
  kContractionA,  // operands and result of a contraction, arranged for matrix products
  kContractionB,
  kContractionC,
  kContractionSumA,  // operands summed over the axes that only they have
  kContractionSumB,
  kContractionOnce,      // a result that is repeated along some axes
  kContractionMirror,    // the output gradient of a tensor contracted with itself, plus its mirror image
  kNormalizationSums,    // moments, then gradient sums, of parts of the data of a normalization; shared
  kNormalizationValues,  // numbers made of them, shared, or gamma and beta spread over a row
  kNormalizationRow,     // gradient sums of the elements of a row
  kBoundaryGradient,     // gradient at the boundary of a fused chain: all of it, shared, or the current piece
  kAttentionTiles,       // packed keys and values of one head, and the current scores
  kAttentionHeads,       // projections of a chunk of samples, shared
  kStoredA,              // operands of a matrix product as floats that are stored in other types, shared
  kStoredB,
  kStoredPairs,  // the left one with its steps in another order, shared
  kStoredTerms,  // what is added to exact sums of integers, shared
  kStoredSums,   // C before it is converted, shared
  kStoredPlane,  // a plane of results before it is converted
  kWeightSums,   // sums of the integers of weights, shared
  kWindowSums,   // sums of the integers under the windows of a convolution, shared
};

}  // namespace openbnns
