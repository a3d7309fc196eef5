/* How programs of macOS 11 to 15 write descriptors, enums, lists and callbacks: a sum, batch normalization, Adam. */
#include <Accelerate/Accelerate.h>
#include <stdlib.h>
#include <vecLib/BNNS/bnns.h>

enum { kChannels = 3, kBatch = 2 };

static int allocate(void** memory, size_t alignment, size_t size) {
  *memory = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  return *memory == NULL;
}

static const char* name_of(BNNSDataType type) {
  switch (type) {
    case BNNSDataTypeFloat32:
      return "float";
    case BNNSDataTypeInt8:
      return "char";
    default:
      return "other";
  }
}

static BNNSNDArrayDescriptor vector(void* data) {
  BNNSNDArrayDescriptor descriptor = {.flags = BNNSNDArrayFlagBackpropSet,
                                      .layout = BNNSDataLayoutVector,
                                      .size = {kChannels, 0, 0},
                                      .stride = {1, 0, 0},
                                      .data = data,
                                      .data_type = BNNSDataTypeFloat32,
                                      .table_data = NULL,
                                      .table_data_type = BNNSDataTypeFloat32,
                                      .data_scale = 1,
                                      .data_bias = 0};
  return descriptor;
}

int main(void) {
  float a[kBatch * kChannels] = {1, 2, 3, 3, 2, 1}, b[kBatch * kChannels] = {0, 0, 0, 2, 0, -2}, y[kBatch * kChannels];
  float da[kBatch * kChannels], db[kBatch * kChannels], dy[kBatch * kChannels] = {1, 1, 1, 0, 0, 0};
  float beta[kChannels] = {0}, gamma[kChannels] = {1, 1, 1}, d_beta[kChannels], d_gamma[kChannels];
  float moments[2][kChannels] = {{0}};

  BNNSArithmeticBinary sum = {.in1 = vector(NULL),
                              .in1_type = BNNSSample,
                              .in2 = vector(NULL),
                              .in2_type = BNNSSample,
                              .out = vector(NULL),
                              .out_type = BNNSSample};
  BNNSLayerParametersArithmetic arithmetic;
  arithmetic.arithmetic_function = BNNSArithmeticAdd;
  arithmetic.arithmetic_function_fields = &sum;
  BNNSActivation identity = {BNNSActivationFunctionIdentity, 0, 0, 0, 0, 0, NULL, NULL, NULL};
  arithmetic.activation = identity;
  BNNSLayerParametersNormalization normalization = {.i_desc = vector(NULL),
                                                    .o_desc = vector(NULL),
                                                    .beta_desc = vector(beta),
                                                    .gamma_desc = vector(gamma),
                                                    .moving_mean_desc = vector(NULL),
                                                    .moving_variance_desc = vector(NULL),
                                                    .momentum = 0.9f,
                                                    .epsilon = 0.25f,
                                                    .activation = identity,
                                                    .num_groups = 0,
                                                    .normalization_axis = 0};
  BNNSFilterType types[] = {BNNSArithmetic, BNNSBatchNorm};
  const void* layers[] = {&arithmetic, &normalization};
  BNNSFilterParameters options = {BNNSFlagsUseClientPtr, 1, allocate, free};
  BNNSFilter fused = BNNSFilterCreateFusedLayer(2, types, layers, &options);
  if (fused == NULL || name_of(normalization.i_desc.data_type)[0] != 'f') return 1;

  const void* inputs[] = {a, b};
  size_t strides[] = {kChannels, kChannels};
  int status = BNNSFusedFilterApplyMultiInputBatch(fused, kBatch, 2, inputs, strides, y, kChannels, true);
  /* Sums {1, 2, 3} and {5, 2, -1}: means 3, 2, 1, variances 4, 0, 4. */
  if (status != 0 || y[0] * y[0] < 0.94f || y[1] != 0 || y[2] != -y[0] || y[3] != -y[0]) return 2;

  BNNSNDArrayDescriptor a_delta = vector(da), b_delta = vector(db), y_delta = vector(dy);
  BNNSNDArrayDescriptor beta_delta = vector(d_beta), gamma_delta = vector(d_gamma);
  BNNSNDArrayDescriptor *deltas[] = {&a_delta, &b_delta}, *parameter_deltas[] = {&beta_delta, &gamma_delta};
  status = BNNSFusedFilterApplyBackwardMultiInputBatch(fused, kBatch, 2, inputs, strides, deltas, strides, y, kChannels,
                                                       &y_delta, kChannels, parameter_deltas);
  BNNSFilterDestroy(fused);
  if (status != 0 || d_beta[0] != 1 || d_gamma[1] != 0 || da[1] != db[1] || da[1] != 1) return 3;

  BNNSNDArrayDescriptor parameter = vector(gamma), first = vector(moments[0]), second = vector(moments[1]);
  BNNSNDArrayDescriptor *parameters[1] = {&parameter}, *accumulators[2] = {&first, &second};
  const BNNSNDArrayDescriptor* gradients[1] = {&beta_delta};
  BNNSOptimizerAdamFields adam = {.learning_rate = 0.5f,
                                  .beta1 = 0.5f,
                                  .beta2 = 0.75f,
                                  .time_step = 1,
                                  .epsilon = 0,
                                  .gradient_scale = 1.0f,
                                  .regularization_scale = 0.0f,
                                  .clip_gradients = false,
                                  .clip_gradients_min = 0,
                                  .clip_gradients_max = 0,
                                  .regularization_func = BNNSOptimizerRegularizationNone};
  status = BNNSOptimizerStep(BNNSOptimizerFunctionAdam, &adam, 1, parameters, gradients, accumulators, NULL);
  return status != 0 || gamma[0] != 0.5f || moments[0][0] != 0.5f ? 4 : 0;
}
