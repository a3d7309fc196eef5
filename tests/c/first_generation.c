/* How programs of macOS 10.12 describe a network; compiled only. */
#include <Accelerate/Accelerate.h>

static float weights[3 * 3 * 8], bias[8];

BNNSFilter convolution(void);
BNNSFilter convolution(void) {
  BNNSImageStackDescriptor i_desc = {.width = 28,
                                     .height = 28,
                                     .channels = 1,
                                     .row_stride = 28,
                                     .image_stride = 28 * 28,
                                     .data_type = BNNSDataTypeFloat32,
                                     .data_scale = 1.0f,
                                     .data_bias = 0.0f};
  BNNSImageStackDescriptor o_desc = {28, 28, 8, 28, 28 * 28, BNNSDataTypeFloat32, 1.0f, 0.0f};
  BNNSConvolutionLayerParameters params = {
      .x_stride = 1,
      .y_stride = 1,
      .x_padding = 1,
      .y_padding = 1,
      .k_width = 3,
      .k_height = 3,
      .in_channels = 1,
      .out_channels = 8,
      .weights = {weights, BNNSDataTypeFloat32, 1.0f, 0.0f, NULL},
      .bias = {bias, BNNSDataTypeFloat32, 1.0f, 0.0f, NULL},
      .activation = {BNNSActivationFunctionRectifiedLinear, 0.0f, 0.0f, 0, 0, 0, NULL, NULL, NULL}};
  BNNSFilterParameters filter_params = {
      .flags = BNNSFlagsUseClientPtr, .n_threads = 0, .alloc_memory = NULL, .free_memory = NULL};
  return BNNSFilterCreateConvolutionLayer(&i_desc, &o_desc, &params, &filter_params);
}

int main(void) {
  BNNSFilter filter = convolution();
  BNNSVectorDescriptor vector = {16, BNNSDataTypeFloat32, 1.0f, 0.0f};
  BNNSActivation softmax = {BNNSActivationFunctionSoftmax, 0.0f, 0.0f, 0, 0, 0, NULL, NULL, NULL};
  BNNSFilter activation = BNNSFilterCreateVectorActivationLayer(&vector, &vector, &softmax, NULL);
  if (filter == NULL || activation == NULL) return 1;
  BNNSFilterDestroy(activation);
  BNNSFilterDestroy(filter);
  return 0;
}
