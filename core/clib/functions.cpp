// The exported functions: each passes its arguments on. Written by tools/generate_clib.py from tools/facts; edit
// those, not this file.
#include "clib/call.h"
#include "clib/handles.h"

namespace openbnns {
namespace clib {

const Function functions[] = {
    {"BNNSFilterCreateLayerConvolution", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateLayerTransposedConvolution", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateLayerFullyConnected", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateLayerPooling", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateLayerActivation", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateLayerLoss", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateLayerNormalization", "upp", 'h', 0, 3, kInPython},
    {"BNNSFilterCreateLayerArithmetic", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateLayerPermute", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateLayerDropout", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateLayerPadding", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateLayerBroadcastMatMul", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateLayerTensorContraction", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateLayerGram", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateLayerResize", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateLayerMultiheadAttention", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateLayerReduction", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateLayerEmbedding", "pp", 'h', 0, 2, kInPython},
    {"BNNSFilterCreateFusedLayer", "uppp", 'h', 0, 4, kInPython},
    {"BNNSFilterApply", "hpp", 'i', -1, 3, 0},
    {"BNNSFilterApplyBatch", "hupupu", 'i', -1, 6, 1},
    {"BNNSPoolingFilterApplyBatch", "hupupupu", 'i', -1, 8, 2},
    {"BNNSPoolingFilterApplyBatchEx", "hupupuupu", 'i', -1, 9, 3},
    {"BNNSFilterApplyTwoInput", "hppp", 'i', -1, 4, 4},
    {"BNNSFilterApplyTwoInputBatch", "hupupupu", 'i', -1, 8, 5},
    {"BNNSNormalizationFilterApplyBatch", "hupupub", 'i', -1, 7, 6},
    {"BNNSFusedFilterApplyBatch", "hupupub", 'i', -1, 7, 7},
    {"BNNSFusedFilterApplyMultiInputBatch", "huupppub", 'i', -1, 8, 8},
    {"BNNSArithmeticFilterApplyBatch", "huupppu", 'i', -1, 7, 9},
    {"BNNSApplyMultiheadAttention", "hupupupupupuppppp", 'i', -1, 17, 10},
    {"BNNSDirectApplyQuantizer", "ppuuu", 'i', -1, 5, kAlone},
    {"BNNSFilterDestroy", "h", 'v', 0, 1, kInPython},
    {"BNNSOptimizerStep", "upupppp", 'i', -1, 7, kAlone},
    {"BNNSClipByValue", "ppff", 'i', -1, 4, kAlone},
    {"BNNSClipByNorm", "ppfu", 'i', -1, 4, kAlone},
    {"BNNSClipByGlobalNorm", "ppuff", 'i', -1, 5, kAlone},
    {"BNNSComputeNorm", "ppuu", 'i', -1, 4, kAlone},
    {"BNNSComputeNormBackward", "ppppuu", 'i', -1, 6, kAlone},
    {"BNNSFilterApplyBackwardBatch", "hupupupupupp", 'i', -1, 12, 11},
    {"BNNSPoolingFilterApplyBackwardBatch", "hupupupupuppu", 'i', -1, 13, 12},
    {"BNNSPoolingFilterApplyBackwardBatchEx", "hupupupupupupu", 'i', -1, 14, 13},
    {"BNNSFilterApplyBackwardTwoInputBatch", "hupupupupupupupp", 'i', -1, 16, 14},
    {"BNNSNormalizationFilterApplyBackwardBatch", "hupupupupp", 'i', -1, 10, 15},
    {"BNNSFusedFilterApplyBackwardBatch", "hupupupupup", 'i', -1, 11, 16},
    {"BNNSFusedFilterApplyBackwardMultiInputBatch", "huupppppupup", 'i', -1, 12, 17},
    {"BNNSArithmeticFilterApplyBackwardBatch", "huupppppupu", 'i', -1, 11, 18},
    {"BNNSPermuteFilterApplyBackwardBatch", "hupupu", 'i', -1, 6, 19},
    {"BNNSLossFilterApplyBatch", "hupupupuppu", 'i', -1, 11, 20},
    {"BNNSLossFilterApplyBackwardBatch", "hupupupupupu", 'i', -1, 12, 21},
    {"BNNSApplyMultiheadAttentionBackward", "hupuppupuppupppppupuppp", 'i', -1, 23, 22},
    {"BNNSComputeLSTMTrainingCacheCapacity", "p", 'u', -1, 1, kInPython},
    {"BNNSDirectApplyLSTMBatchTrainingCaching", "pppu", 'i', -1, 4, kAlone},
    {"BNNSDirectApplyLSTMBatchBackward", "ppppu", 'i', -1, 5, kAlone},
    {"BNNSDirectApplyActivationBatch", "ppuuu", 'i', -1, 5, kAlone},
    {"BNNSCopy", "ppp", 'i', -1, 3, kAlone},
    {"BNNSMatMulWorkspaceSize", "bbfpppp", 'i', -1, 7, kAlone},
    {"BNNSMatMul", "bbfppppp", 'i', -1, 8, kAlone},
    {"BNNSDirectApplyBroadcastMatMul", "bbfpppp", 'v', 0, 7, kAlone},
    {"BNNSTranspose", "ppuup", 'i', -1, 5, kAlone},
    {"BNNSDirectApplyReduction", "pp", 'i', -1, 2, kAlone},
    {"BNNSCompareTensor", "ppup", 'i', -1, 4, kAlone},
    {"BNNSTile", "ppp", 'i', -1, 3, kAlone},
    {"BNNSTileBackward", "ppp", 'i', -1, 3, kAlone},
    {"BNNSDirectApplyTopK", "uuupupupup", 'i', -1, 10, kAlone},
    {"BNNSDirectApplyInTopK", "uuupupupup", 'i', -1, 10, kAlone},
    {"BNNSGather", "upppp", 'i', -1, 5, kAlone},
    {"BNNSScatter", "uupppp", 'i', -1, 6, kAlone},
    {"BNNSGatherND", "pppp", 'i', -1, 4, kAlone},
    {"BNNSScatterND", "upppp", 'i', -1, 5, kAlone},
    {"BNNSShuffle", "uppp", 'i', -1, 4, kAlone},
    {"BNNSBandPart", "iippp", 'i', -1, 5, kAlone},
    {"BNNSCropResize", "ppppp", 'i', -1, 5, kAlone},
    {"BNNSCropResizeBackward", "ppppp", 'i', -1, 5, kAlone},
    {"BNNSGetPointer", "phu", 'd', 0, 3, kInPython},
    {"BNNSNDArrayGetDataSize", "p", 'u', 0, 1, kInPython},
    {"BNNSTensorGetAllocationSize", "p", 'u', -1, 1, kInPython},
    {"BNNSDataLayoutGetRank", "u", 'u', -1, 1, kInPython},
    {"BNNSNDArrayFullyConnectedSparsifySparseCOO", "pppppupup", 'i', -1, 9, kAlone},
    {"BNNSNDArrayFullyConnectedSparsifySparseCSR", "ppppppupup", 'i', -1, 10, kAlone},
    {"BNNSCreateRandomGenerator", "up", 'g', 0, 2, kInPython},
    {"BNNSCreateRandomGeneratorWithSeed", "uup", 'g', 0, 3, kInPython},
    {"BNNSDestroyRandomGenerator", "g", 'v', 0, 1, kInPython},
    {"BNNSRandomGeneratorStateSize", "g", 'u', 0, 1, kInPython},
    {"BNNSRandomGeneratorGetState", "gup", 'i', -1, 3, kInPython},
    {"BNNSRandomGeneratorSetState", "gup", 'i', -1, 3, kInPython},
    {"BNNSRandomFillUniformFloat", "gpff", 'i', -1, 4, kInPython},
    {"BNNSRandomFillUniformInt", "gpii", 'i', -1, 4, kInPython},
    {"BNNSRandomFillNormalFloat", "gpff", 'i', -1, 4, kInPython},
    {"BNNSRandomFillCategoricalFloat", "gppb", 'i', -1, 4, kInPython},
    {"BNNSCreateNearestNeighbors", "uuuup", 'n', 0, 5, kInPython},
    {"BNNSDestroyNearestNeighbors", "n", 'v', 0, 1, kInPython},
    {"BNNSNearestNeighborsLoad", "nup", 'i', -1, 3, kInPython},
    {"BNNSNearestNeighborsGetInfo", "nipp", 'i', -1, 4, kInPython},
    {"BNNSFilterCreateConvolutionLayer", "pppp", 'h', 0, 4, kInPython},
    {"BNNSFilterCreateFullyConnectedLayer", "pppp", 'h', 0, 4, kInPython},
    {"BNNSFilterCreatePoolingLayer", "pppp", 'h', 0, 4, kInPython},
    {"BNNSFilterCreateVectorActivationLayer", "pppp", 'h', 0, 4, kInPython},
    {"BNNSGraphCompileOptionsMakeDefault", "", 'o', 0, 0, kInPython},
    {"BNNSGraphCompileOptionsDestroy", "o", 'v', 0, 1, kInPython},
    {"BNNSGraphCompileOptionsSetTargetSingleThread", "ob", 'v', 0, 2, kInPython},
    {"BNNSGraphCompileOptionsGetTargetSingleThread", "o", 'u', 0, 1, kInPython},
    {"BNNSGraphCompileOptionsSetGenerateDebugInfo", "ob", 'v', 0, 2, kInPython},
    {"BNNSGraphCompileOptionsGetGenerateDebugInfo", "o", 'u', 0, 1, kInPython},
    {"BNNSGraphCompileOptionsSetOptimizationPreference", "ou", 'v', 0, 2, kInPython},
    {"BNNSGraphCompileOptionsGetOptimizationPreference", "o", 'u', 0, 1, kInPython},
    {"BNNSGraphCompileOptionsSetMessageLogCallback", "opp", 'v', 0, 3, kInPython},
    {"BNNSGraphCompileOptionsSetMessageLogMask", "ou", 'v', 0, 2, kInPython},
    {"BNNSGraphCompileOptionsSetOutputPath", "op", 'v', 0, 2, kInPython},
    {"BNNSGraphCompileOptionsGetOutputPath", "o", 'p', 0, 1, kInPython},
    {"BNNSGraphCompileOptionsSetOutputFD", "oi", 'v', 0, 2, kInPython},
    {"BNNSGraphCompileOptionsGetOutputFD", "o", 'i', -1, 1, kInPython},
    {"BNNSGraphCompileFromFile", "pppo", 'm', 0, 4, kInPython},
    {"BNNSGraphGetInputCount", "pup", 'u', -1, 3, kInPython},
    {"BNNSGraphGetOutputCount", "pup", 'u', -1, 3, kInPython},
    {"BNNSGraphGetArgumentCount", "pup", 'u', -1, 3, kInPython},
    {"BNNSGraphGetFunctionCount", "pu", 'u', -1, 2, kInPython},
    {"BNNSGraphGetInputNames", "pupup", 'i', -1, 5, kInPython},
    {"BNNSGraphGetOutputNames", "pupup", 'i', -1, 5, kInPython},
    {"BNNSGraphGetArgumentNames", "pupup", 'i', -1, 5, kInPython},
    {"BNNSGraphGetFunctionNames", "puup", 'i', -1, 4, kInPython},
    {"BNNSGraphGetArgumentIntents", "pupup", 'i', -1, 5, kInPython},
    {"BNNSGraphGetArgumentPosition", "pupp", 'u', -1, 4, kInPython},
    {"BNNSGraphGetArgumentInterleaveFactors", "pupupp", 'i', -1, 6, kInPython},
    {"BNNSGraphTensorFillStrides", "puppp", 'i', -1, 5, kInPython},
    {"BNNSGraphContextMake", "pu", 'c', 0, 2, kInPython},
    {"BNNSGraphContextMakeStreaming", "pupup", 'c', 0, 5, kInPython},
    {"BNNSGraphContextDestroy", "c", 'v', 0, 1, kInPython},
    {"BNNSGraphContextSetDynamicShapes", "cpup", 'i', -1, 4, kInPython},
    {"BNNSGraphContextSetBatchSize", "cpu", 'i', -1, 3, kInPython},
    {"BNNSGraphContextSetArgumentType", "cu", 'i', -1, 2, kInPython},
    {"BNNSGraphContextEnableNanAndInfChecks", "cb", 'v', 0, 2, kInPython},
    {"BNNSGraphContextSetStreamingAdvanceCount", "cu", 'i', -1, 2, kInPython},
    {"BNNSGraphContextExecute", "cpupup", 'i', -1, 6, 23},
    {"BNNSGraphContextGetWorkspaceSize", "cp", 'u', -1, 2, kInPython},
    {"BNNSGraphContextGetTensor", "cppbp", 'i', -1, 5, kInPython},
    {"BNNSGraphContextSetWorkspaceAllocationCallback", "cppup", 'i', -1, 5, kInPython},
    {"BNNSGraphContextSetOutputAllocationCallback", "cppup", 'i', -1, 5, kInPython},
    {"BNNSGraphContextSetMessageLogCallback", "cpp", 'i', -1, 3, kInPython},
    {"BNNSGraphContextSetMessageLogMask", "cu", 'i', -1, 2, kInPython},
    {"openbnns_graph_builder_make", "", 'r', 0, 0, kInPython},
    {"openbnns_graph_builder_add", "rppu", 'i', -1, 4, kInPython},
    {"openbnns_graph_builder_get_tensor", "rip", 'i', -1, 3, kInPython},
    {"openbnns_graph_builder_compile", "prupo", 'm', 0, 5, kInPython},
    {"openbnns_graph_builder_destroy", "r", 'v', 0, 1, kInPython},
};
const size_t function_count = sizeof functions / sizeof functions[0];
static_assert(kDriving == 24 && sizeof functions / sizeof functions[0] <= kMostFunctions);

}  // namespace clib
}  // namespace openbnns

using namespace openbnns::clib;
// clang-format off
extern "C" {

OPENBNNS_EXPORT void* BNNSFilterCreateLayerConvolution(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(0, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerTransposedConvolution(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(1, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerFullyConnected(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(2, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerPooling(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(3, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerActivation(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(4, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerLoss(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(5, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerNormalization(uint32_t normType, const void* layer_params, const void* filter_params) {
  const Word words[] = {word(normType), word(layer_params), word(filter_params)};
  return const_cast<void*>(call(6, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerArithmetic(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(7, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerPermute(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(8, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerDropout(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(9, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerPadding(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(10, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerBroadcastMatMul(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(11, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerTensorContraction(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(12, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerGram(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(13, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerResize(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(14, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerMultiheadAttention(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(15, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerReduction(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(16, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateLayerEmbedding(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return const_cast<void*>(call(17, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateFusedLayer(size_t number_of_fused_filters, const void* filter_type, const void* layer_params, const void* filter_params) {
  const Word words[] = {word(number_of_fused_filters), word(filter_type), word(layer_params), word(filter_params)};
  return const_cast<void*>(call(18, words).pointer);
}

OPENBNNS_EXPORT int BNNSFilterApply(const void* filter, const void* in, const void* out) {
  const Word words[] = {word(filter), word(in), word(out)};
  return static_cast<int>(call(19, words).number);
}

OPENBNNS_EXPORT int BNNSFilterApplyBatch(const void* filter, size_t batch_size, const void* in, size_t in_stride, const void* out, size_t out_stride) {
  const Word words[] = {word(filter), word(batch_size), word(in), word(in_stride), word(out), word(out_stride)};
  return static_cast<int>(call(20, words).number);
}

OPENBNNS_EXPORT int BNNSPoolingFilterApplyBatch(const void* filter, size_t batch_size, const void* in, size_t in_stride, const void* out, size_t out_stride, const void* indices, size_t idx_stride) {
  const Word words[] = {word(filter), word(batch_size), word(in), word(in_stride), word(out), word(out_stride), word(indices), word(idx_stride)};
  return static_cast<int>(call(21, words).number);
}

OPENBNNS_EXPORT int BNNSPoolingFilterApplyBatchEx(const void* filter, size_t batch_size, const void* in, size_t in_stride, const void* out, size_t out_stride, uint32_t indices_data_type, const void* indices, size_t idx_stride) {
  const Word words[] = {word(filter), word(batch_size), word(in), word(in_stride), word(out), word(out_stride), word(indices_data_type), word(indices), word(idx_stride)};
  return static_cast<int>(call(22, words).number);
}

OPENBNNS_EXPORT int BNNSFilterApplyTwoInput(const void* filter, const void* inA, const void* inB, const void* out) {
  const Word words[] = {word(filter), word(inA), word(inB), word(out)};
  return static_cast<int>(call(23, words).number);
}

OPENBNNS_EXPORT int BNNSFilterApplyTwoInputBatch(const void* filter, size_t batch_size, const void* inA, size_t inA_stride, const void* inB, size_t inB_stride, const void* out, size_t out_stride) {
  const Word words[] = {word(filter), word(batch_size), word(inA), word(inA_stride), word(inB), word(inB_stride), word(out), word(out_stride)};
  return static_cast<int>(call(24, words).number);
}

OPENBNNS_EXPORT int BNNSNormalizationFilterApplyBatch(const void* filter, size_t batch_size, const void* in, size_t in_stride, const void* out, size_t out_stride, bool training) {
  const Word words[] = {word(filter), word(batch_size), word(in), word(in_stride), word(out), word(out_stride), word(training)};
  return static_cast<int>(call(25, words).number);
}

OPENBNNS_EXPORT int BNNSFusedFilterApplyBatch(const void* filter, size_t batch_size, const void* in, size_t in_stride, const void* out, size_t out_stride, bool training) {
  const Word words[] = {word(filter), word(batch_size), word(in), word(in_stride), word(out), word(out_stride), word(training)};
  return static_cast<int>(call(26, words).number);
}

OPENBNNS_EXPORT int BNNSFusedFilterApplyMultiInputBatch(const void* filter, size_t batch_size, size_t number_of_inputs, const void* in, const void* in_stride, const void* out, size_t out_stride, bool training) {
  const Word words[] = {word(filter), word(batch_size), word(number_of_inputs), word(in), word(in_stride), word(out), word(out_stride), word(training)};
  return static_cast<int>(call(27, words).number);
}

OPENBNNS_EXPORT int BNNSArithmeticFilterApplyBatch(const void* filter, size_t batch_size, size_t number_of_inputs, const void* in, const void* in_stride, const void* out, size_t out_stride) {
  const Word words[] = {word(filter), word(batch_size), word(number_of_inputs), word(in), word(in_stride), word(out), word(out_stride)};
  return static_cast<int>(call(28, words).number);
}

OPENBNNS_EXPORT int BNNSApplyMultiheadAttention(const void* F, size_t batch_size, const void* query, size_t query_stride, const void* key, size_t key_stride, const void* key_mask, size_t key_mask_stride, const void* value, size_t value_stride, const void* output, size_t output_stride, const void* add_to_attention, const void* backprop_cache_size, const void* backprop_cache, const void* workspace_size, const void* workspace) {
  const Word words[] = {word(F), word(batch_size), word(query), word(query_stride), word(key), word(key_stride), word(key_mask), word(key_mask_stride), word(value), word(value_stride), word(output), word(output_stride), word(add_to_attention), word(backprop_cache_size), word(backprop_cache), word(workspace_size), word(workspace)};
  return static_cast<int>(call(29, words).number);
}

OPENBNNS_EXPORT int BNNSDirectApplyQuantizer(const void* layer_params, const void* filter_params, size_t batch_size, size_t input_stride, size_t output_stride) {
  const Word words[] = {word(layer_params), word(filter_params), word(batch_size), word(input_stride), word(output_stride)};
  return static_cast<int>(call(30, words).number);
}

OPENBNNS_EXPORT void BNNSFilterDestroy(const void* filter) {
  const Word words[] = {word(filter)};
  call(31, words);
}

OPENBNNS_EXPORT int BNNSOptimizerStep(uint32_t function, const void* OptimizerAlgFields, size_t number_of_parameters, const void* parameters, const void* gradients, const void* accumulators, const void* filter_params) {
  const Word words[] = {word(function), word(OptimizerAlgFields), word(number_of_parameters), word(parameters), word(gradients), word(accumulators), word(filter_params)};
  return static_cast<int>(call(32, words).number);
}

OPENBNNS_EXPORT int BNNSClipByValue(const void* dest, const void* src, float min_val, float max_val) {
  const Word words[] = {word(dest), word(src), word(min_val), word(max_val)};
  return static_cast<int>(call(33, words).number);
}

OPENBNNS_EXPORT int BNNSClipByNorm(const void* dest, const void* src, float max_norm, uint32_t axis_flags) {
  const Word words[] = {word(dest), word(src), word(max_norm), word(axis_flags)};
  return static_cast<int>(call(34, words).number);
}

OPENBNNS_EXPORT int BNNSClipByGlobalNorm(const void* dest, const void* src, size_t count, float max_norm, float use_norm) {
  const Word words[] = {word(dest), word(src), word(count), word(max_norm), word(use_norm)};
  return static_cast<int>(call(35, words).number);
}

OPENBNNS_EXPORT int BNNSComputeNorm(const void* dest, const void* src, uint32_t norm_type, uint32_t axis_flags) {
  const Word words[] = {word(dest), word(src), word(norm_type), word(axis_flags)};
  return static_cast<int>(call(36, words).number);
}

OPENBNNS_EXPORT int BNNSComputeNormBackward(const void* in, const void* in_delta, const void* out, const void* out_delta, uint32_t norm_type, uint32_t axis_flags) {
  const Word words[] = {word(in), word(in_delta), word(out), word(out_delta), word(norm_type), word(axis_flags)};
  return static_cast<int>(call(37, words).number);
}

OPENBNNS_EXPORT int BNNSFilterApplyBackwardBatch(const void* filter, size_t batch_size, const void* in, size_t in_stride, const void* in_delta, size_t in_delta_stride, const void* out, size_t out_stride, const void* out_delta, size_t out_delta_stride, const void* weights_delta, const void* bias_delta) {
  const Word words[] = {word(filter), word(batch_size), word(in), word(in_stride), word(in_delta), word(in_delta_stride), word(out), word(out_stride), word(out_delta), word(out_delta_stride), word(weights_delta), word(bias_delta)};
  return static_cast<int>(call(38, words).number);
}

OPENBNNS_EXPORT int BNNSPoolingFilterApplyBackwardBatch(const void* filter, size_t batch_size, const void* in, size_t in_stride, const void* in_delta, size_t in_delta_stride, const void* out, size_t out_stride, const void* out_delta, size_t out_delta_stride, const void* bias_delta, const void* indices, size_t idx_stride) {
  const Word words[] = {word(filter), word(batch_size), word(in), word(in_stride), word(in_delta), word(in_delta_stride), word(out), word(out_stride), word(out_delta), word(out_delta_stride), word(bias_delta), word(indices), word(idx_stride)};
  return static_cast<int>(call(39, words).number);
}

OPENBNNS_EXPORT int BNNSPoolingFilterApplyBackwardBatchEx(const void* filter, size_t batch_size, const void* in, size_t in_stride, const void* in_delta, size_t in_delta_stride, const void* out, size_t out_stride, const void* out_delta, size_t out_delta_stride, const void* bias_delta, uint32_t indices_data_type, const void* indices, size_t idx_stride) {
  const Word words[] = {word(filter), word(batch_size), word(in), word(in_stride), word(in_delta), word(in_delta_stride), word(out), word(out_stride), word(out_delta), word(out_delta_stride), word(bias_delta), word(indices_data_type), word(indices), word(idx_stride)};
  return static_cast<int>(call(40, words).number);
}

OPENBNNS_EXPORT int BNNSFilterApplyBackwardTwoInputBatch(const void* filter, size_t batch_size, const void* inA, size_t inA_stride, const void* inA_delta, size_t inA_delta_stride, const void* inB, size_t inB_stride, const void* inB_delta, size_t inB_delta_stride, const void* out, size_t out_stride, const void* out_delta, size_t out_delta_stride, const void* weights_delta, const void* bias_delta) {
  const Word words[] = {word(filter), word(batch_size), word(inA), word(inA_stride), word(inA_delta), word(inA_delta_stride), word(inB), word(inB_stride), word(inB_delta), word(inB_delta_stride), word(out), word(out_stride), word(out_delta), word(out_delta_stride), word(weights_delta), word(bias_delta)};
  return static_cast<int>(call(41, words).number);
}

OPENBNNS_EXPORT int BNNSNormalizationFilterApplyBackwardBatch(const void* filter, size_t batch_size, const void* in_delta, size_t in_delta_stride, const void* out, size_t out_stride, const void* out_delta, size_t out_delta_stride, const void* beta_delta, const void* gamma_delta) {
  const Word words[] = {word(filter), word(batch_size), word(in_delta), word(in_delta_stride), word(out), word(out_stride), word(out_delta), word(out_delta_stride), word(beta_delta), word(gamma_delta)};
  return static_cast<int>(call(42, words).number);
}

OPENBNNS_EXPORT int BNNSFusedFilterApplyBackwardBatch(const void* filter, size_t batch_size, const void* in, size_t in_stride, const void* in_delta, size_t in_delta_stride, const void* out, size_t out_stride, const void* out_delta, size_t out_delta_stride, const void* delta_parameters) {
  const Word words[] = {word(filter), word(batch_size), word(in), word(in_stride), word(in_delta), word(in_delta_stride), word(out), word(out_stride), word(out_delta), word(out_delta_stride), word(delta_parameters)};
  return static_cast<int>(call(43, words).number);
}

OPENBNNS_EXPORT int BNNSFusedFilterApplyBackwardMultiInputBatch(const void* filter, size_t batch_size, size_t number_of_inputs, const void* in, const void* in_stride, const void* in_delta, const void* in_delta_stride, const void* out, size_t out_stride, const void* out_delta, size_t out_delta_stride, const void* delta_parameters) {
  const Word words[] = {word(filter), word(batch_size), word(number_of_inputs), word(in), word(in_stride), word(in_delta), word(in_delta_stride), word(out), word(out_stride), word(out_delta), word(out_delta_stride), word(delta_parameters)};
  return static_cast<int>(call(44, words).number);
}

OPENBNNS_EXPORT int BNNSArithmeticFilterApplyBackwardBatch(const void* filter, size_t batch_size, size_t number_of_inputs, const void* in, const void* in_stride, const void* in_delta, const void* in_delta_stride, const void* out, size_t out_stride, const void* out_delta, size_t out_delta_stride) {
  const Word words[] = {word(filter), word(batch_size), word(number_of_inputs), word(in), word(in_stride), word(in_delta), word(in_delta_stride), word(out), word(out_stride), word(out_delta), word(out_delta_stride)};
  return static_cast<int>(call(45, words).number);
}

OPENBNNS_EXPORT int BNNSPermuteFilterApplyBackwardBatch(const void* filter, size_t batch_size, const void* in_delta, size_t in_delta_stride, const void* out_delta, size_t out_delta_stride) {
  const Word words[] = {word(filter), word(batch_size), word(in_delta), word(in_delta_stride), word(out_delta), word(out_delta_stride)};
  return static_cast<int>(call(46, words).number);
}

OPENBNNS_EXPORT int BNNSLossFilterApplyBatch(const void* filter, size_t batch_size, const void* in, size_t in_stride, const void* labels, size_t labels_stride, const void* weights, size_t weights_size, const void* out, const void* in_delta, size_t in_delta_stride) {
  const Word words[] = {word(filter), word(batch_size), word(in), word(in_stride), word(labels), word(labels_stride), word(weights), word(weights_size), word(out), word(in_delta), word(in_delta_stride)};
  return static_cast<int>(call(47, words).number);
}

OPENBNNS_EXPORT int BNNSLossFilterApplyBackwardBatch(const void* filter, size_t batch_size, const void* in, size_t in_stride, const void* in_delta, size_t in_delta_stride, const void* labels, size_t labels_stride, const void* weights, size_t weights_size, const void* out_delta, size_t out_delta_stride) {
  const Word words[] = {word(filter), word(batch_size), word(in), word(in_stride), word(in_delta), word(in_delta_stride), word(labels), word(labels_stride), word(weights), word(weights_size), word(out_delta), word(out_delta_stride)};
  return static_cast<int>(call(48, words).number);
}

OPENBNNS_EXPORT int BNNSApplyMultiheadAttentionBackward(const void* F, size_t batch_size, const void* query, size_t query_stride, const void* query_param_delta, const void* key, size_t key_stride, const void* key_mask, size_t key_mask_stride, const void* key_param_delta, const void* value, size_t value_stride, const void* value_param_delta, const void* add_to_attention, const void* key_attn_bias_delta, const void* value_attn_bias_delta, const void* output, size_t output_stride, const void* output_param_delta, size_t backprop_cache_size, const void* backprop_cache, const void* workspace_size, const void* workspace) {
  const Word words[] = {word(F), word(batch_size), word(query), word(query_stride), word(query_param_delta), word(key), word(key_stride), word(key_mask), word(key_mask_stride), word(key_param_delta), word(value), word(value_stride), word(value_param_delta), word(add_to_attention), word(key_attn_bias_delta), word(value_attn_bias_delta), word(output), word(output_stride), word(output_param_delta), word(backprop_cache_size), word(backprop_cache), word(workspace_size), word(workspace)};
  return static_cast<int>(call(49, words).number);
}

OPENBNNS_EXPORT size_t BNNSComputeLSTMTrainingCacheCapacity(const void* layer_params) {
  const Word words[] = {word(layer_params)};
  return static_cast<size_t>(call(50, words).number);
}

OPENBNNS_EXPORT int BNNSDirectApplyLSTMBatchTrainingCaching(const void* layer_params, const void* filter_params, const void* training_cache_ptr, size_t training_cache_capacity) {
  const Word words[] = {word(layer_params), word(filter_params), word(training_cache_ptr), word(training_cache_capacity)};
  return static_cast<int>(call(51, words).number);
}

OPENBNNS_EXPORT int BNNSDirectApplyLSTMBatchBackward(const void* layer_params, const void* layer_delta_params, const void* filter_params, const void* training_cache_ptr, size_t training_cache_capacity) {
  const Word words[] = {word(layer_params), word(layer_delta_params), word(filter_params), word(training_cache_ptr), word(training_cache_capacity)};
  return static_cast<int>(call(52, words).number);
}

OPENBNNS_EXPORT int BNNSDirectApplyActivationBatch(const void* layer_params, const void* filter_params, size_t batch_size, size_t in_stride, size_t out_stride) {
  const Word words[] = {word(layer_params), word(filter_params), word(batch_size), word(in_stride), word(out_stride)};
  return static_cast<int>(call(53, words).number);
}

OPENBNNS_EXPORT int BNNSCopy(const void* dest, const void* src, const void* filter_params) {
  const Word words[] = {word(dest), word(src), word(filter_params)};
  return static_cast<int>(call(54, words).number);
}

OPENBNNS_EXPORT ssize_t BNNSMatMulWorkspaceSize(bool transA, bool transB, float alpha, const void* inputA, const void* inputB, const void* output, const void* filter_params) {
  const Word words[] = {word(transA), word(transB), word(alpha), word(inputA), word(inputB), word(output), word(filter_params)};
  return static_cast<ssize_t>(call(55, words).number);
}

OPENBNNS_EXPORT int BNNSMatMul(bool transA, bool transB, float alpha, const void* inputA, const void* inputB, const void* output, const void* workspace, const void* filter_params) {
  const Word words[] = {word(transA), word(transB), word(alpha), word(inputA), word(inputB), word(output), word(workspace), word(filter_params)};
  return static_cast<int>(call(56, words).number);
}

OPENBNNS_EXPORT void BNNSDirectApplyBroadcastMatMul(bool transA, bool transB, float alpha, const void* inputA, const void* inputB, const void* output, const void* filter_params) {
  const Word words[] = {word(transA), word(transB), word(alpha), word(inputA), word(inputB), word(output), word(filter_params)};
  call(57, words);
}

OPENBNNS_EXPORT int BNNSTranspose(const void* dest, const void* src, size_t axis0, size_t axis1, const void* filter_params) {
  const Word words[] = {word(dest), word(src), word(axis0), word(axis1), word(filter_params)};
  return static_cast<int>(call(58, words).number);
}

OPENBNNS_EXPORT int BNNSDirectApplyReduction(const void* layer_params, const void* filter_params) {
  const Word words[] = {word(layer_params), word(filter_params)};
  return static_cast<int>(call(59, words).number);
}

OPENBNNS_EXPORT int BNNSCompareTensor(const void* in0, const void* in1, uint32_t op, const void* out) {
  const Word words[] = {word(in0), word(in1), word(op), word(out)};
  return static_cast<int>(call(60, words).number);
}

OPENBNNS_EXPORT int BNNSTile(const void* input, const void* output, const void* filter_params) {
  const Word words[] = {word(input), word(output), word(filter_params)};
  return static_cast<int>(call(61, words).number);
}

OPENBNNS_EXPORT int BNNSTileBackward(const void* in_delta, const void* out_delta, const void* filter_params) {
  const Word words[] = {word(in_delta), word(out_delta), word(filter_params)};
  return static_cast<int>(call(62, words).number);
}

OPENBNNS_EXPORT int BNNSDirectApplyTopK(size_t K, size_t axis, size_t batch_size, const void* input, size_t input_batch_stride, const void* best_values, size_t best_values_batch_stride, const void* best_indices, size_t best_indices_batch_stride, const void* filter_params) {
  const Word words[] = {word(K), word(axis), word(batch_size), word(input), word(input_batch_stride), word(best_values), word(best_values_batch_stride), word(best_indices), word(best_indices_batch_stride), word(filter_params)};
  return static_cast<int>(call(63, words).number);
}

OPENBNNS_EXPORT int BNNSDirectApplyInTopK(size_t K, size_t axis, size_t batch_size, const void* input, size_t input_batch_stride, const void* test_indices, size_t test_indices_batch_stride, const void* output, size_t output_batch_stride, const void* filter_params) {
  const Word words[] = {word(K), word(axis), word(batch_size), word(input), word(input_batch_stride), word(test_indices), word(test_indices_batch_stride), word(output), word(output_batch_stride), word(filter_params)};
  return static_cast<int>(call(64, words).number);
}

OPENBNNS_EXPORT int BNNSGather(size_t axis, const void* input, const void* indices, const void* output, const void* filter_params) {
  const Word words[] = {word(axis), word(input), word(indices), word(output), word(filter_params)};
  return static_cast<int>(call(65, words).number);
}

OPENBNNS_EXPORT int BNNSScatter(size_t axis, uint32_t op, const void* input, const void* indices, const void* output, const void* filter_params) {
  const Word words[] = {word(axis), word(op), word(input), word(indices), word(output), word(filter_params)};
  return static_cast<int>(call(66, words).number);
}

OPENBNNS_EXPORT int BNNSGatherND(const void* input, const void* indices, const void* output, const void* filter_params) {
  const Word words[] = {word(input), word(indices), word(output), word(filter_params)};
  return static_cast<int>(call(67, words).number);
}

OPENBNNS_EXPORT int BNNSScatterND(uint32_t op, const void* input, const void* indices, const void* output, const void* filter_params) {
  const Word words[] = {word(op), word(input), word(indices), word(output), word(filter_params)};
  return static_cast<int>(call(68, words).number);
}

OPENBNNS_EXPORT int BNNSShuffle(uint32_t type, const void* input, const void* output, const void* filter_params) {
  const Word words[] = {word(type), word(input), word(output), word(filter_params)};
  return static_cast<int>(call(69, words).number);
}

OPENBNNS_EXPORT int BNNSBandPart(int num_lower, int num_upper, const void* input, const void* output, const void* filter_params) {
  const Word words[] = {word(num_lower), word(num_upper), word(input), word(output), word(filter_params)};
  return static_cast<int>(call(70, words).number);
}

OPENBNNS_EXPORT int BNNSCropResize(const void* layer_params, const void* input, const void* roi, const void* output, const void* filter_params) {
  const Word words[] = {word(layer_params), word(input), word(roi), word(output), word(filter_params)};
  return static_cast<int>(call(71, words).number);
}

OPENBNNS_EXPORT int BNNSCropResizeBackward(const void* layer_params, const void* in_delta, const void* roi, const void* out_delta, const void* filter_params) {
  const Word words[] = {word(layer_params), word(in_delta), word(roi), word(out_delta), word(filter_params)};
  return static_cast<int>(call(72, words).number);
}

OPENBNNS_EXPORT Descriptor BNNSGetPointer(const void* filter, uint32_t target) {
  Descriptor result{};
  const Word words[] = {word(static_cast<const void*>(&result)), word(filter), word(target)};
  call(73, words);
  return result;
}

OPENBNNS_EXPORT size_t BNNSNDArrayGetDataSize(const void* array) {
  const Word words[] = {word(array)};
  return static_cast<size_t>(call(74, words).number);
}

OPENBNNS_EXPORT size_t BNNSTensorGetAllocationSize(const void* tensor) {
  const Word words[] = {word(tensor)};
  return static_cast<size_t>(call(75, words).number);
}

OPENBNNS_EXPORT size_t BNNSDataLayoutGetRank(uint32_t layout) {
  const Word words[] = {word(layout)};
  return static_cast<size_t>(call(76, words).number);
}

OPENBNNS_EXPORT int BNNSNDArrayFullyConnectedSparsifySparseCOO(const void* in_dense_shape, const void* in_indices, const void* in_values, const void* out, const void* sparse_params, size_t batch_size, const void* workspace, size_t workspace_size, const void* filter_params) {
  const Word words[] = {word(in_dense_shape), word(in_indices), word(in_values), word(out), word(sparse_params), word(batch_size), word(workspace), word(workspace_size), word(filter_params)};
  return static_cast<int>(call(77, words).number);
}

OPENBNNS_EXPORT int BNNSNDArrayFullyConnectedSparsifySparseCSR(const void* in_dense_shape, const void* in_column_indices, const void* in_row_starts, const void* in_values, const void* out, const void* sparse_params, size_t batch_size, const void* workspace, size_t workspace_size, const void* filter_params) {
  const Word words[] = {word(in_dense_shape), word(in_column_indices), word(in_row_starts), word(in_values), word(out), word(sparse_params), word(batch_size), word(workspace), word(workspace_size), word(filter_params)};
  return static_cast<int>(call(78, words).number);
}

OPENBNNS_EXPORT void* BNNSCreateRandomGenerator(uint32_t method, const void* filter_params) {
  const Word words[] = {word(method), word(filter_params)};
  return const_cast<void*>(call(79, words).pointer);
}

OPENBNNS_EXPORT void* BNNSCreateRandomGeneratorWithSeed(uint32_t method, uint64_t seed, const void* filter_params) {
  const Word words[] = {word(method), word(seed), word(filter_params)};
  return const_cast<void*>(call(80, words).pointer);
}

OPENBNNS_EXPORT void BNNSDestroyRandomGenerator(const void* generator) {
  const Word words[] = {word(generator)};
  call(81, words);
}

OPENBNNS_EXPORT size_t BNNSRandomGeneratorStateSize(const void* generator) {
  const Word words[] = {word(generator)};
  return static_cast<size_t>(call(82, words).number);
}

OPENBNNS_EXPORT int BNNSRandomGeneratorGetState(const void* generator, size_t state_size, const void* state) {
  const Word words[] = {word(generator), word(state_size), word(state)};
  return static_cast<int>(call(83, words).number);
}

OPENBNNS_EXPORT int BNNSRandomGeneratorSetState(const void* generator, size_t state_size, const void* state) {
  const Word words[] = {word(generator), word(state_size), word(state)};
  return static_cast<int>(call(84, words).number);
}

OPENBNNS_EXPORT int BNNSRandomFillUniformFloat(const void* generator, const void* desc, float a, float b) {
  const Word words[] = {word(generator), word(desc), word(a), word(b)};
  return static_cast<int>(call(85, words).number);
}

OPENBNNS_EXPORT int BNNSRandomFillUniformInt(const void* generator, const void* desc, int64_t a, int64_t b) {
  const Word words[] = {word(generator), word(desc), word(a), word(b)};
  return static_cast<int>(call(86, words).number);
}

OPENBNNS_EXPORT int BNNSRandomFillNormalFloat(const void* generator, const void* desc, float mean, float stddev) {
  const Word words[] = {word(generator), word(desc), word(mean), word(stddev)};
  return static_cast<int>(call(87, words).number);
}

OPENBNNS_EXPORT int BNNSRandomFillCategoricalFloat(const void* generator, const void* desc, const void* probabilities, bool log_probabilities) {
  const Word words[] = {word(generator), word(desc), word(probabilities), word(log_probabilities)};
  return static_cast<int>(call(88, words).number);
}

OPENBNNS_EXPORT void* BNNSCreateNearestNeighbors(unsigned int max_n_samples, unsigned int n_features, unsigned int n_neighbors, uint32_t data_type, const void* filter_params) {
  const Word words[] = {word(max_n_samples), word(n_features), word(n_neighbors), word(data_type), word(filter_params)};
  return const_cast<void*>(call(89, words).pointer);
}

OPENBNNS_EXPORT void BNNSDestroyNearestNeighbors(const void* knn) {
  const Word words[] = {word(knn)};
  call(90, words);
}

OPENBNNS_EXPORT int BNNSNearestNeighborsLoad(const void* knn, unsigned int n_new_samples, const void* data_ptr) {
  const Word words[] = {word(knn), word(n_new_samples), word(data_ptr)};
  return static_cast<int>(call(91, words).number);
}

OPENBNNS_EXPORT int BNNSNearestNeighborsGetInfo(const void* knn, int sample_number, const void* indices, const void* distances) {
  const Word words[] = {word(knn), word(sample_number), word(indices), word(distances)};
  return static_cast<int>(call(92, words).number);
}

OPENBNNS_EXPORT void* BNNSFilterCreateConvolutionLayer(const void* in_desc, const void* out_desc, const void* layer_params, const void* filter_params) {
  const Word words[] = {word(in_desc), word(out_desc), word(layer_params), word(filter_params)};
  return const_cast<void*>(call(93, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateFullyConnectedLayer(const void* in_desc, const void* out_desc, const void* layer_params, const void* filter_params) {
  const Word words[] = {word(in_desc), word(out_desc), word(layer_params), word(filter_params)};
  return const_cast<void*>(call(94, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreatePoolingLayer(const void* in_desc, const void* out_desc, const void* layer_params, const void* filter_params) {
  const Word words[] = {word(in_desc), word(out_desc), word(layer_params), word(filter_params)};
  return const_cast<void*>(call(95, words).pointer);
}

OPENBNNS_EXPORT void* BNNSFilterCreateVectorActivationLayer(const void* in_desc, const void* out_desc, const void* activation, const void* filter_params) {
  const Word words[] = {word(in_desc), word(out_desc), word(activation), word(filter_params)};
  return const_cast<void*>(call(96, words).pointer);
}

OPENBNNS_EXPORT Pair BNNSGraphCompileOptionsMakeDefault() {
  return pair_of(call(97, nullptr).pointer);
}

OPENBNNS_EXPORT void BNNSGraphCompileOptionsDestroy(Pair options) {
  const Word words[] = {word(options.data)};
  call(98, words);
}

OPENBNNS_EXPORT void BNNSGraphCompileOptionsSetTargetSingleThread(Pair options, bool value) {
  const Word words[] = {word(options.data), word(value)};
  call(99, words);
}

OPENBNNS_EXPORT bool BNNSGraphCompileOptionsGetTargetSingleThread(Pair options) {
  const Word words[] = {word(options.data)};
  return static_cast<bool>(call(100, words).number);
}

OPENBNNS_EXPORT void BNNSGraphCompileOptionsSetGenerateDebugInfo(Pair options, bool value) {
  const Word words[] = {word(options.data), word(value)};
  call(101, words);
}

OPENBNNS_EXPORT bool BNNSGraphCompileOptionsGetGenerateDebugInfo(Pair options) {
  const Word words[] = {word(options.data)};
  return static_cast<bool>(call(102, words).number);
}

OPENBNNS_EXPORT void BNNSGraphCompileOptionsSetOptimizationPreference(Pair options, uint32_t preference) {
  const Word words[] = {word(options.data), word(preference)};
  call(103, words);
}

OPENBNNS_EXPORT uint32_t BNNSGraphCompileOptionsGetOptimizationPreference(Pair options) {
  const Word words[] = {word(options.data)};
  return static_cast<uint32_t>(call(104, words).number);
}

OPENBNNS_EXPORT void BNNSGraphCompileOptionsSetMessageLogCallback(Pair options, const void* log_callback, const void* additional_logging_arguments) {
  const Word words[] = {word(options.data), word(log_callback), word(additional_logging_arguments)};
  call(105, words);
}

OPENBNNS_EXPORT void BNNSGraphCompileOptionsSetMessageLogMask(Pair options, uint32_t log_level_mask) {
  const Word words[] = {word(options.data), word(log_level_mask)};
  call(106, words);
}

OPENBNNS_EXPORT void BNNSGraphCompileOptionsSetOutputPath(Pair options, const void* path) {
  const Word words[] = {word(options.data), word(path)};
  call(107, words);
}

OPENBNNS_EXPORT const char* BNNSGraphCompileOptionsGetOutputPath(Pair options) {
  const Word words[] = {word(options.data)};
  return static_cast<const char*>(call(108, words).pointer);
}

OPENBNNS_EXPORT void BNNSGraphCompileOptionsSetOutputFD(Pair options, int fd) {
  const Word words[] = {word(options.data), word(fd)};
  call(109, words);
}

OPENBNNS_EXPORT int BNNSGraphCompileOptionsGetOutputFD(Pair options) {
  const Word words[] = {word(options.data)};
  return static_cast<int>(call(110, words).number);
}

OPENBNNS_EXPORT Pair BNNSGraphCompileFromFile(const void* filename, const void* function, Pair options) {
  Pair result{};
  const Word words[] = {word(static_cast<const void*>(&result)), word(filename), word(function), word(options.data)};
  call(111, words);
  return result;
}
OPENBNNS_EXPORT Pair BNNSGraphCompileFromFile_v2(const void* filename, const void* function, Pair options) __attribute__((alias("BNNSGraphCompileFromFile")));

OPENBNNS_EXPORT size_t BNNSGraphGetInputCount(Pair graph, const void* function) {
  const Word words[] = {word(graph.data), word(graph.size), word(function)};
  return static_cast<size_t>(call(112, words).number);
}

OPENBNNS_EXPORT size_t BNNSGraphGetOutputCount(Pair graph, const void* function) {
  const Word words[] = {word(graph.data), word(graph.size), word(function)};
  return static_cast<size_t>(call(113, words).number);
}

OPENBNNS_EXPORT size_t BNNSGraphGetArgumentCount(Pair graph, const void* function) {
  const Word words[] = {word(graph.data), word(graph.size), word(function)};
  return static_cast<size_t>(call(114, words).number);
}

OPENBNNS_EXPORT size_t BNNSGraphGetFunctionCount(Pair graph) {
  const Word words[] = {word(graph.data), word(graph.size)};
  return static_cast<size_t>(call(115, words).number);
}

OPENBNNS_EXPORT int BNNSGraphGetInputNames(Pair graph, const void* function, size_t input_names_count, const void* input_names) {
  const Word words[] = {word(graph.data), word(graph.size), word(function), word(input_names_count), word(input_names)};
  return static_cast<int>(call(116, words).number);
}
OPENBNNS_EXPORT int BNNSGraphGetInputNames_v2(Pair graph, const void* function, size_t input_names_count, const void* input_names) __attribute__((alias("BNNSGraphGetInputNames")));

OPENBNNS_EXPORT int BNNSGraphGetOutputNames(Pair graph, const void* function, size_t output_names_count, const void* output_names) {
  const Word words[] = {word(graph.data), word(graph.size), word(function), word(output_names_count), word(output_names)};
  return static_cast<int>(call(117, words).number);
}
OPENBNNS_EXPORT int BNNSGraphGetOutputNames_v2(Pair graph, const void* function, size_t output_names_count, const void* output_names) __attribute__((alias("BNNSGraphGetOutputNames")));

OPENBNNS_EXPORT int BNNSGraphGetArgumentNames(Pair graph, const void* function, size_t argument_names_count, const void* argument_names) {
  const Word words[] = {word(graph.data), word(graph.size), word(function), word(argument_names_count), word(argument_names)};
  return static_cast<int>(call(118, words).number);
}

OPENBNNS_EXPORT int BNNSGraphGetFunctionNames(Pair graph, size_t function_name_count, const void* function_names) {
  const Word words[] = {word(graph.data), word(graph.size), word(function_name_count), word(function_names)};
  return static_cast<int>(call(119, words).number);
}

OPENBNNS_EXPORT int BNNSGraphGetArgumentIntents(Pair graph, const void* function, size_t argument_intents_count, const void* argument_intents) {
  const Word words[] = {word(graph.data), word(graph.size), word(function), word(argument_intents_count), word(argument_intents)};
  return static_cast<int>(call(120, words).number);
}

OPENBNNS_EXPORT size_t BNNSGraphGetArgumentPosition(Pair graph, const void* function, const void* argument) {
  const Word words[] = {word(graph.data), word(graph.size), word(function), word(argument)};
  return static_cast<size_t>(call(121, words).number);
}

OPENBNNS_EXPORT int BNNSGraphGetArgumentInterleaveFactors(Pair graph, const void* function, size_t argument_count, const void* argument_interleave, const void* argument_interleave_counts) {
  const Word words[] = {word(graph.data), word(graph.size), word(function), word(argument_count), word(argument_interleave), word(argument_interleave_counts)};
  return static_cast<int>(call(122, words).number);
}

OPENBNNS_EXPORT int BNNSGraphTensorFillStrides(Pair graph, const void* function, const void* argument, const void* tensor) {
  const Word words[] = {word(graph.data), word(graph.size), word(function), word(argument), word(tensor)};
  return static_cast<int>(call(123, words).number);
}

OPENBNNS_EXPORT Pair BNNSGraphContextMake(Pair graph) {
  const Word words[] = {word(graph.data), word(graph.size)};
  return pair_of(call(124, words).pointer);
}

OPENBNNS_EXPORT Pair BNNSGraphContextMakeStreaming(Pair graph, const void* function, size_t initial_states_count, const void* initial_states) {
  const Word words[] = {word(graph.data), word(graph.size), word(function), word(initial_states_count), word(initial_states)};
  return pair_of(call(125, words).pointer);
}

OPENBNNS_EXPORT void BNNSGraphContextDestroy(Pair context) {
  const Word words[] = {word(context.data)};
  call(126, words);
}
OPENBNNS_EXPORT void BNNSGraphContextDestroy_v2(Pair context) __attribute__((alias("BNNSGraphContextDestroy")));

OPENBNNS_EXPORT int BNNSGraphContextSetDynamicShapes(Pair context, const void* function, size_t shapes_count, const void* shapes) {
  const Word words[] = {word(context.data), word(function), word(shapes_count), word(shapes)};
  return static_cast<int>(call(127, words).number);
}
OPENBNNS_EXPORT int BNNSGraphContextSetDynamicShapes_v2(Pair context, const void* function, size_t shapes_count, const void* shapes) __attribute__((alias("BNNSGraphContextSetDynamicShapes")));

OPENBNNS_EXPORT int BNNSGraphContextSetBatchSize(Pair context, const void* function, uint64_t batch_size) {
  const Word words[] = {word(context.data), word(function), word(batch_size)};
  return static_cast<int>(call(128, words).number);
}
OPENBNNS_EXPORT int BNNSGraphContextSetBatchSize_v2(Pair context, const void* function, uint64_t batch_size) __attribute__((alias("BNNSGraphContextSetBatchSize")));

OPENBNNS_EXPORT int BNNSGraphContextSetArgumentType(Pair context, uint32_t argument_type) {
  const Word words[] = {word(context.data), word(argument_type)};
  return static_cast<int>(call(129, words).number);
}

OPENBNNS_EXPORT void BNNSGraphContextEnableNanAndInfChecks(Pair context, bool enable_check_for_nans_inf) {
  const Word words[] = {word(context.data), word(enable_check_for_nans_inf)};
  call(130, words);
}

OPENBNNS_EXPORT int BNNSGraphContextSetStreamingAdvanceCount(Pair context, size_t advance_count) {
  const Word words[] = {word(context.data), word(advance_count)};
  return static_cast<int>(call(131, words).number);
}

OPENBNNS_EXPORT int BNNSGraphContextExecute(Pair context, const void* function, size_t argument_count, const void* arguments, size_t workspace_size, const void* workspace) {
  const Word words[] = {word(context.data), word(function), word(argument_count), word(arguments), word(workspace_size), word(workspace)};
  return static_cast<int>(call(132, words).number);
}
OPENBNNS_EXPORT int BNNSGraphContextExecute_v2(Pair context, const void* function, size_t argument_count, const void* arguments, size_t workspace_size, const void* workspace) __attribute__((alias("BNNSGraphContextExecute")));

OPENBNNS_EXPORT size_t BNNSGraphContextGetWorkspaceSize(Pair context, const void* function) {
  const Word words[] = {word(context.data), word(function)};
  return static_cast<size_t>(call(133, words).number);
}
OPENBNNS_EXPORT size_t BNNSGraphContextGetWorkspaceSize_v2(Pair context, const void* function) __attribute__((alias("BNNSGraphContextGetWorkspaceSize")));

OPENBNNS_EXPORT int BNNSGraphContextGetTensor(Pair context, const void* function, const void* argument, bool fill_known_dynamic_shapes, const void* tensor) {
  const Word words[] = {word(context.data), word(function), word(argument), word(fill_known_dynamic_shapes), word(tensor)};
  return static_cast<int>(call(134, words).number);
}

OPENBNNS_EXPORT int BNNSGraphContextSetWorkspaceAllocationCallback(Pair context, const void* realloc, const void* free, size_t user_memory_context_size, const void* user_memory_context) {
  const Word words[] = {word(context.data), word(realloc), word(free), word(user_memory_context_size), word(user_memory_context)};
  return static_cast<int>(call(135, words).number);
}
OPENBNNS_EXPORT int BNNSGraphContextSetWorkspaceAllocationCallback_v2(Pair context, const void* realloc, const void* free, size_t user_memory_context_size, const void* user_memory_context) __attribute__((alias("BNNSGraphContextSetWorkspaceAllocationCallback")));

OPENBNNS_EXPORT int BNNSGraphContextSetOutputAllocationCallback(Pair context, const void* realloc, const void* free, size_t user_memory_context_size, const void* user_memory_context) {
  const Word words[] = {word(context.data), word(realloc), word(free), word(user_memory_context_size), word(user_memory_context)};
  return static_cast<int>(call(136, words).number);
}
OPENBNNS_EXPORT int BNNSGraphContextSetOutputAllocationCallback_v2(Pair context, const void* realloc, const void* free, size_t user_memory_context_size, const void* user_memory_context) __attribute__((alias("BNNSGraphContextSetOutputAllocationCallback")));

OPENBNNS_EXPORT int BNNSGraphContextSetMessageLogCallback(Pair context, const void* log_callback_fn, const void* additional_logging_arguments) {
  const Word words[] = {word(context.data), word(log_callback_fn), word(additional_logging_arguments)};
  return static_cast<int>(call(137, words).number);
}

OPENBNNS_EXPORT int BNNSGraphContextSetMessageLogMask(Pair context, uint32_t log_level_mask) {
  const Word words[] = {word(context.data), word(log_level_mask)};
  return static_cast<int>(call(138, words).number);
}

OPENBNNS_EXPORT void* openbnns_graph_builder_make() {
  return const_cast<void*>(call(139, nullptr).pointer);
}

OPENBNNS_EXPORT int64_t openbnns_graph_builder_add(const void* builder, const void* operation, const void* data, size_t data_size) {
  const Word words[] = {word(builder), word(operation), word(data), word(data_size)};
  return static_cast<int64_t>(call(140, words).number);
}

OPENBNNS_EXPORT int openbnns_graph_builder_get_tensor(const void* builder, int64_t number, const void* tensor) {
  const Word words[] = {word(builder), word(number), word(tensor)};
  return static_cast<int>(call(141, words).number);
}

OPENBNNS_EXPORT Pair openbnns_graph_builder_compile(const void* builder, size_t output_count, const void* outputs, Pair options) {
  Pair result{};
  const Word words[] = {word(static_cast<const void*>(&result)), word(builder), word(output_count), word(outputs), word(options.data)};
  call(142, words);
  return result;
}

OPENBNNS_EXPORT void openbnns_graph_builder_destroy(const void* builder) {
  const Word words[] = {word(builder)};
  call(143, words);
}

}  // extern "C"
