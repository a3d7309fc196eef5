/* How programs of macOS 11 to 15 write descriptors, enums, lists and callbacks; compiled only. */
#include <Accelerate/Accelerate.h>
#include <stdlib.h>
#include <vecLib/BNNS/bnns.h>

static int allocate(void** memory, size_t alignment, size_t size) {
  (void)alignment;
  *memory = malloc(size);
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

int main(void) {
  float data[6] = {0}, weights[6] = {0}, moments[12] = {0};
  BNNSNDArrayDescriptor parameter = {.flags = BNNSNDArrayFlagBackpropSet,
                                     .layout = BNNSDataLayoutRowMajorMatrix,
                                     .size = {3, 2},
                                     .stride = {0, 0},
                                     .data = weights,
                                     .data_type = BNNSDataTypeFloat32,
                                     .table_data = NULL,
                                     .table_data_type = BNNSDataTypeFloat32,
                                     .data_scale = 1,
                                     .data_bias = 0};
  BNNSNDArrayDescriptor gradient = parameter, first = parameter, second = parameter;
  gradient.data = data;
  first.data = moments;
  second.data = moments + 6;
  BNNSNDArrayDescriptor *parameters[1] = {&parameter}, *accumulators[2] = {&first, &second};
  const BNNSNDArrayDescriptor* gradients[1] = {&gradient};
  BNNSOptimizerAdamFields adam = {.learning_rate = 0.1f,
                                  .beta1 = 0.9f,
                                  .beta2 = 0.999f,
                                  .time_step = 1,
                                  .epsilon = 1e-8f,
                                  .gradient_scale = 1.0f,
                                  .regularization_scale = 0.0f,
                                  .clip_gradients = false,
                                  .clip_gradients_min = 0,
                                  .clip_gradients_max = 0,
                                  .regularization_func = BNNSOptimizerRegularizationNone};
  int status = BNNSOptimizerStep(BNNSOptimizerFunctionAdam, &adam, 1, parameters, gradients, accumulators, NULL);

  BNNSArithmeticBinary fields;
  fields.in1 = parameter;
  fields.in1_type = BNNSSample;
  BNNSLayerParametersArithmetic arithmetic;
  arithmetic.arithmetic_function = BNNSArithmeticAdd;
  arithmetic.arithmetic_function_fields = &fields;
  arithmetic.activation.function = BNNSActivationFunctionIdentity;
  BNNSFilterType types[2] = {BNNSArithmetic, BNNSBatchNorm};
  BNNSLayerParametersNormalization normalization;
  const void* layers[2] = {&arithmetic, &normalization};
  BNNSFilterParameters options = {BNNSFlagsUseClientPtr, 1, allocate, free};
  BNNSFilter fused = BNNSFilterCreateFusedLayer(2, types, layers, &options);
  const void* inputs[2] = {data, data};
  size_t strides[2] = {6, 6};
  status |= BNNSFusedFilterApplyMultiInputBatch(fused, 1, 2, inputs, strides, weights, 6, true);
  return status != 0 || name_of(parameter.data_type)[0] != 'f';
}
