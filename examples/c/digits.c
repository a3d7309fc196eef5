/*
 * Train a network to read digits that stand anywhere in an image, with BNNS alone.
 *
 *     images [N][1][20][20]
 *     -> fused: convolution 1 -> 32, 3 x 3, padding 1; batch normalization; ReLU      [N][32][20][20]
 *     -> max pooling 2 x 2                                                            [N][32][10][10]
 *     -> fully connected 3200 -> 10, without bias                                     [N][10]
 *     -> softmax cross entropy, mean; Adam with clipped gradients and an L2 penalty
 *
 *     cc -O2 digits.c -o digits $(openbnns c-flags) && ./digits [steps [seed]]
 *
 * It is examples/digits_capi.py in C, and its losses are the same to the last bit. The file compiles on macOS, too, but
 * for openbnns_last_error.
 */

#include <Accelerate/Accelerate.h>
#include <stdio.h>
#include <stdlib.h>

#include "glyphs.h"

enum { BATCH = 32, CHANNELS = 32, HALF = IMAGE / 2, KERNEL = 3 };
enum { PIXELS = IMAGE * IMAGE, FEATURE_PIXELS = CHANNELS * PIXELS, FEATURES = CHANNELS * HALF * HALF };
enum { KERNELS = CHANNELS * KERNEL * KERNEL, SCORES = 10 };

/* BNNS says 0 or -1; here the library also says why. */
static void check(int status, const char* what) {
  if (status != 0) {
    fprintf(stderr, "%s failed: %s\n", what, openbnns_last_error());
    exit(1);
  }
}

static BNNSNDArrayDescriptor vector(size_t count, float* data) {
  BNNSNDArrayDescriptor d = {
      .layout = BNNSDataLayoutVector, .size = {count}, .data = data, .data_type = BNNSDataTypeFloat32};
  return d;
}

static BNNSNDArrayDescriptor image(size_t width, size_t height, size_t channels, float* data) {
  BNNSNDArrayDescriptor d = {.layout = BNNSDataLayoutImageCHW,
                             .size = {width, height, channels},
                             .data = data,
                             .data_type = BNNSDataTypeFloat32};
  return d;
}

static BNNSNDArrayDescriptor kernels(float* data) {
  BNNSNDArrayDescriptor d = {.layout = BNNSDataLayoutConvolutionWeightsOIHW,
                             .size = {KERNEL, KERNEL, 1, CHANNELS},
                             .data = data,
                             .data_type = BNNSDataTypeFloat32};
  return d;
}

static BNNSNDArrayDescriptor matrix(size_t columns, size_t rows, float* data) {
  BNNSNDArrayDescriptor d = {
      .layout = BNNSDataLayoutRowMajorMatrix, .size = {columns, rows}, .data = data, .data_type = BNNSDataTypeFloat32};
  return d;
}

/* One value per trained number: the parameters, their gradients, or one of Adam's two moments. */
typedef struct {
  float kernels[KERNELS], bias[CHANNELS], beta[CHANNELS], gamma[CHANNELS], weights[SCORES * FEATURES];
} numbers;

enum { PARAMETERS = 5 };

static void describe(numbers* n, BNNSNDArrayDescriptor descriptors[PARAMETERS]) {
  descriptors[0] = kernels(n->kernels);
  descriptors[1] = vector(CHANNELS, n->bias);
  descriptors[2] = vector(CHANNELS, n->beta);
  descriptors[3] = vector(CHANNELS, n->gamma);
  descriptors[4] = matrix(FEATURES, SCORES, n->weights);
}

static struct {
  numbers parameters, gradients, moments[2];
  float moving_mean[CHANNELS], moving_variance[CHANNELS];
  BNNSFilter fused, pooling, fully_connected, loss;
} net;

/* What flows through the network for one batch, and back. */
static float images[BATCH * PIXELS], labels[BATCH * SCORES];
static float features[BATCH * FEATURE_PIXELS], features_gradient[BATCH * FEATURE_PIXELS];
static float pooled[BATCH * FEATURES], pooled_gradient[BATCH * FEATURES];
static float scores[BATCH * SCORES], scores_gradient[BATCH * SCORES];

static void create(random_state* random) {
  for (size_t i = 0; i < KERNELS; i++) net.parameters.kernels[i] = (float)random_uniform(random, -0.5, 0.5);
  for (size_t i = 0; i < SCORES * FEATURES; i++) net.parameters.weights[i] = (float)random_uniform(random, -0.5, 0.5);
  for (size_t i = 0; i < CHANNELS; i++) {
    net.parameters.gamma[i] = net.moving_mean[i] = net.moving_variance[i] = 1;
  }

  BNNSFilterParameters in_place = {.flags = BNNSFlagsUseClientPtr}; /* filters read what Adam changes */
  BNNSLayerParametersConvolution convolution = {.i_desc = image(IMAGE, IMAGE, 1, NULL),
                                                .w_desc = kernels(net.parameters.kernels),
                                                .o_desc = image(IMAGE, IMAGE, CHANNELS, NULL),
                                                .bias = vector(CHANNELS, net.parameters.bias),
                                                .x_stride = 1,
                                                .y_stride = 1,
                                                .x_dilation_stride = 1,
                                                .y_dilation_stride = 1,
                                                .x_padding = 1,
                                                .y_padding = 1};
  BNNSLayerParametersNormalization normalization = {.i_desc = image(IMAGE, IMAGE, CHANNELS, NULL),
                                                    .o_desc = image(IMAGE, IMAGE, CHANNELS, NULL),
                                                    .beta_desc = vector(CHANNELS, net.parameters.beta),
                                                    .gamma_desc = vector(CHANNELS, net.parameters.gamma),
                                                    .moving_mean_desc = vector(CHANNELS, net.moving_mean),
                                                    .moving_variance_desc = vector(CHANNELS, net.moving_variance),
                                                    .momentum = 0.9f,
                                                    .epsilon = 1e-7f,
                                                    .activation = {.function = BNNSActivationFunctionRectifiedLinear}};
  BNNSFilterType types[2] = {BNNSConvolution, BNNSBatchNorm};
  const void* layers[2] = {&convolution, &normalization};
  net.fused = BNNSFilterCreateFusedLayer(2, types, layers, &in_place);
  check(net.fused ? 0 : -1, "convolution and batch normalization");

  BNNSLayerParametersPooling pooling = {.i_desc = image(IMAGE, IMAGE, CHANNELS, NULL),
                                        .o_desc = image(HALF, HALF, CHANNELS, NULL),
                                        .pooling_function = BNNSPoolingFunctionMax,
                                        .k_width = 2,
                                        .k_height = 2,
                                        .x_stride = 2,
                                        .y_stride = 2};
  net.pooling = BNNSFilterCreateLayerPooling(&pooling, &in_place);
  check(net.pooling ? 0 : -1, "pooling");

  BNNSLayerParametersFullyConnected fully_connected = {.i_desc = vector(FEATURES, NULL),
                                                       .w_desc = matrix(FEATURES, SCORES, net.parameters.weights),
                                                       .o_desc = vector(SCORES, NULL)};
  net.fully_connected = BNNSFilterCreateLayerFullyConnected(&fully_connected, &in_place);
  check(net.fully_connected ? 0 : -1, "fully connected layer");

  BNNSLayerParametersLossSoftmaxCrossEntropy loss = {.function = BNNSLossFunctionSoftmaxCrossEntropy,
                                                     .i_desc = vector(SCORES, NULL),
                                                     .o_desc = vector(1, NULL),
                                                     .reduction = BNNSLossReductionMean};
  net.loss = BNNSFilterCreateLayerLoss(&loss, &in_place);
  check(net.loss ? 0 : -1, "loss");
}

static void forward(bool training) {
  check(BNNSFusedFilterApplyBatch(net.fused, BATCH, images, PIXELS, features, FEATURE_PIXELS, training), "fused");
  check(BNNSPoolingFilterApplyBatch(net.pooling, BATCH, features, FEATURE_PIXELS, pooled, FEATURES, NULL, 0),
        "pooling");
  check(BNNSFilterApplyBatch(net.fully_connected, BATCH, pooled, FEATURES, scores, SCORES), "fully connected");
}

/* The loss of the batch in images and labels; its gradients go to net.gradients. */
static float loss_and_gradients(void) {
  float loss;
  forward(true);
  BNNSNDArrayDescriptor scores_delta = vector(SCORES, scores_gradient);
  check(
      BNNSLossFilterApplyBatch(net.loss, BATCH, scores, SCORES, labels, SCORES, NULL, 0, &loss, &scores_delta, SCORES),
      "loss");

  BNNSNDArrayDescriptor gradients[PARAMETERS];
  describe(&net.gradients, gradients);
  BNNSNDArrayDescriptor pooled_delta = vector(FEATURES, pooled_gradient);
  check(BNNSFilterApplyBackwardBatch(net.fully_connected, BATCH, pooled, FEATURES, &pooled_delta, FEATURES, scores,
                                     SCORES, &scores_delta, SCORES, &gradients[4], NULL),
        "backward of the fully connected layer");
  BNNSNDArrayDescriptor pooled_image_delta = image(HALF, HALF, CHANNELS, pooled_gradient);
  BNNSNDArrayDescriptor features_delta = image(IMAGE, IMAGE, CHANNELS, features_gradient);
  check(
      BNNSPoolingFilterApplyBackwardBatch(net.pooling, BATCH, features, FEATURE_PIXELS, &features_delta, FEATURE_PIXELS,
                                          pooled, FEATURES, &pooled_image_delta, FEATURES, NULL, NULL, 0),
      "backward of pooling");
  BNNSNDArrayDescriptor* fused_parameters[4] = {&gradients[0], &gradients[1], &gradients[2], &gradients[3]};
  check(BNNSFusedFilterApplyBackwardBatch(net.fused, BATCH, images, PIXELS, NULL, 0, features, FEATURE_PIXELS,
                                          &features_delta, FEATURE_PIXELS, fused_parameters),
        "backward of the fused layer");
  return loss;
}

/* Percentage of new images that the network reads correctly. */
static double accuracy(random_state* random, int batches) {
  int right = 0;
  for (int batch = 0; batch < batches; batch++) {
    draw(random, BATCH, images, labels);
    forward(false);
    for (size_t n = 0; n < BATCH; n++) {
      size_t best = 0;
      for (size_t digit = 1; digit < SCORES; digit++) {
        if (scores[n * SCORES + digit] > scores[n * SCORES + best]) best = digit;
      }
      right += labels[n * SCORES + best] == 1;
    }
  }
  return 100.0 * right / (batches * BATCH);
}

int main(int count, char** arguments) {
  int steps = count > 1 ? atoi(arguments[1]) : 850;
  random_state random;
  random_seed(&random, count > 2 ? (uint32_t)atoi(arguments[2]) : 0);
  create(&random);

  /* Descriptors of the parameters, of their gradients, and of Adam's moments: all first ones, then all second ones. */
  BNNSNDArrayDescriptor descriptors[4][PARAMETERS];
  describe(&net.parameters, descriptors[0]);
  describe(&net.gradients, descriptors[1]);
  describe(&net.moments[0], descriptors[2]);
  describe(&net.moments[1], descriptors[3]);
  BNNSNDArrayDescriptor *parameters[PARAMETERS], *moments[2 * PARAMETERS];
  const BNNSNDArrayDescriptor* gradients[PARAMETERS];
  for (int i = 0; i < PARAMETERS; i++) {
    parameters[i] = &descriptors[0][i];
    gradients[i] = &descriptors[1][i];
    moments[i] = &descriptors[2][i];
    moments[PARAMETERS + i] = &descriptors[3][i];
  }
  BNNSOptimizerAdamFields adam = {.learning_rate = 0.01f,
                                  .beta1 = 0.9f,
                                  .beta2 = 0.999f,
                                  .time_step = 1,
                                  .epsilon = 1e-8f,
                                  .gradient_scale = 1,
                                  .regularization_scale = 0.01f,
                                  .clip_gradients = true,
                                  .clip_gradients_min = -0.5f,
                                  .clip_gradients_max = 0.5f,
                                  .regularization_func = BNNSOptimizerRegularizationL2};

  for (int step = 0; step < steps; step++) {
    if (step == 500) adam.learning_rate /= 10;
    draw(&random, BATCH, images, labels);
    printf("%4d  %.9g\n", step, (double)loss_and_gradients());
    check(BNNSOptimizerStep(BNNSOptimizerFunctionAdam, &adam, PARAMETERS, parameters, gradients, moments, NULL),
          "Adam");
    adam.time_step++;
  }
  printf("Reads %.1f %% of 320 new images correctly.\n", accuracy(&random, 10));

  BNNSFilterDestroy(net.loss);
  BNNSFilterDestroy(net.fully_connected);
  BNNSFilterDestroy(net.pooling);
  BNNSFilterDestroy(net.fused);
  return 0;
}
