/* Fits a line to four points with a fully connected layer: forward, backward, and a step down the gradient.

   cc first.c -o first $(openbnns c-flags)        on a Mac: cc first.c -o first -framework Accelerate */
#include <Accelerate/Accelerate.h>
#include <stdio.h>

static BNNSNDArrayDescriptor vector(size_t count, float* data) {
  return (BNNSNDArrayDescriptor){
      .layout = BNNSDataLayoutVector, .size = {count}, .data = data, .data_type = BNNSDataTypeFloat32};
}

int main(void) {
  const float x[4] = {0, 1, 2, 3}, wanted[4] = {1, 3, 5, 7}; /* wanted = 2 x + 1 */
  float weight = 0, bias = 0, y[4], dy[4], dweight, dbias, loss = 0;
  BNNSLayerParametersFullyConnected layer = {.i_desc = vector(1, NULL),
                                             .o_desc = vector(1, NULL),
                                             .w_desc = {.layout = BNNSDataLayoutRowMajorMatrix,
                                                        .size = {1, 1}, /* columns, rows */
                                                        .data = &weight,
                                                        .data_type = BNNSDataTypeFloat32},
                                             .bias = vector(1, &bias),
                                             .activation = {.function = BNNSActivationFunctionIdentity}};
  /* The filter reads weight and bias where they are, so that a step changes what it computes. */
  BNNSFilterParameters shared = {.flags = BNNSFlagsUseClientPtr};
  BNNSFilter filter = BNNSFilterCreateLayerFullyConnected(&layer, &shared);
  if (filter == NULL) return 1;
  BNNSNDArrayDescriptor out_delta = vector(1, dy), weights_delta = layer.w_desc, bias_delta = vector(1, &dbias);
  weights_delta.data = &dweight;
  for (int step = 0; step < 300; step++) {
    if (BNNSFilterApplyBatch(filter, 4, x, 1, y, 1) != 0) return 1;
    loss = 0;
    for (int i = 0; i < 4; i++) {
      dy[i] = (y[i] - wanted[i]) / 2; /* the gradient of the mean square */
      loss += (y[i] - wanted[i]) * (y[i] - wanted[i]) / 4;
    }
    if (BNNSFilterApplyBackwardBatch(filter, 4, x, 1, NULL, 0, y, 1, &out_delta, 1, &weights_delta, &bias_delta) != 0)
      return 1;
    weight -= 0.1f * dweight;
    bias -= 0.1f * dbias;
  }
  printf("y = %.3f x + %.3f, loss %.1e\n", weight, bias, loss);
  BNNSFilterDestroy(filter);
  return 0;
}
