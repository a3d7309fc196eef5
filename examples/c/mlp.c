/*
 * Train a multilayer perceptron to tell the arms of two spirals apart.
 *
 *     points [N][2] -> 32, tanh -> 32, tanh -> 2 scores -> softmax cross entropy; AdamW, gradients clipped by their
 * norm
 *
 *     cc -O2 mlp.c -o mlp -lm $(openbnns c-flags) && ./mlp
 *
 * The pieces of a network of any depth: layers in an array, their parameters in one list for the optimizer.
 */

#include <math.h>
#include <openbnns/bnns.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 3, BATCH = 64, POINTS = 512, EPOCHS = 200, CLASSES = 2 };
static const size_t WIDTHS[LAYERS + 1] = {2, 32, 32, CLASSES};

static void check(int status, const char* what) {
  if (status != 0) {
    fprintf(stderr, "%s failed: %s\n", what, openbnns_last_error());
    exit(1);
  }
}

static float* zeros(size_t count) {
  float* memory = calloc(count, sizeof *memory);
  if (memory == NULL) exit(1);
  return memory;
}

static BNNSNDArrayDescriptor vector(size_t count, float* data) {
  BNNSNDArrayDescriptor d = {
      .layout = BNNSDataLayoutVector, .size = {count}, .data = data, .data_type = BNNSDataTypeFloat32};
  return d;
}

static BNNSNDArrayDescriptor matrix(size_t columns, size_t rows, float* data) {
  BNNSNDArrayDescriptor d = {
      .layout = BNNSDataLayoutRowMajorMatrix, .size = {columns, rows}, .data = data, .data_type = BNNSDataTypeFloat32};
  return d;
}

/* A fully connected layer with what it computes for a batch. weights[0] and bias[0] are the parameters, [1] their
 * gradients, [2] and [3] the moments of AdamW. */
typedef struct {
  size_t inputs, outputs;
  BNNSNDArrayDescriptor weights[4], bias[4];
  float *output, *output_gradient;
  BNNSFilter filter;
} layer;

static layer make_layer(size_t inputs, size_t outputs, BNNSActivationFunction activation, BNNSRandomGenerator random) {
  layer l = {.inputs = inputs, .outputs = outputs};
  for (int role = 0; role < 4; role++) {
    l.weights[role] = matrix(inputs, outputs, zeros(inputs * outputs));
    l.bias[role] = vector(outputs, zeros(outputs));
  }
  l.output = zeros(BATCH * outputs);
  l.output_gradient = zeros(BATCH * outputs);
  check(BNNSRandomFillNormalFloat(random, &l.weights[0], 0, 1 / sqrtf((float)inputs)), "initial weights");
  BNNSLayerParametersFullyConnected description = {.i_desc = vector(inputs, NULL),
                                                   .w_desc = l.weights[0],
                                                   .o_desc = vector(outputs, NULL),
                                                   .bias = l.bias[0],
                                                   .activation = {.function = activation}};
  BNNSFilterParameters in_place = {.flags = BNNSFlagsUseClientPtr}; /* the filter reads what AdamW changes */
  l.filter = BNNSFilterCreateLayerFullyConnected(&description, &in_place);
  check(l.filter ? 0 : -1, "fully connected layer");
  return l;
}

static void destroy_layer(layer* l) {
  BNNSFilterDestroy(l->filter);
  for (int role = 0; role < 4; role++) {
    free(l->weights[role].data);
    free(l->bias[role].data);
  }
  free(l->output);
  free(l->output_gradient);
}

static void forward(layer layers[LAYERS], const float* input) {
  for (int i = 0; i < LAYERS; i++) {
    layer* l = &layers[i];
    check(BNNSFilterApplyBatch(l->filter, BATCH, input, l->inputs, l->output, l->outputs), "forward");
    input = l->output;
  }
}

/* From the gradient of the scores, which is that of the last output, back to the first weights. */
static void backward(layer layers[LAYERS], const float* input) {
  for (int i = LAYERS; i-- > 0;) {
    layer* l = &layers[i];
    const float* layer_input = i > 0 ? layers[i - 1].output : input;
    BNNSNDArrayDescriptor output_delta = vector(l->outputs, l->output_gradient), input_delta;
    if (i > 0) input_delta = vector(l->inputs, layers[i - 1].output_gradient);
    check(BNNSFilterApplyBackwardBatch(l->filter, BATCH, layer_input, l->inputs, i > 0 ? &input_delta : NULL, l->inputs,
                                       l->output, l->outputs, &output_delta, l->outputs, &l->weights[1], &l->bias[1]),
          "backward");
  }
}

/* Points on two spiral arms, in turn; labels are one-hot. */
static void spirals(BNNSRandomGenerator random, float* points, float* labels) {
  float noise[2 * POINTS];
  BNNSNDArrayDescriptor all_noise = vector(2 * POINTS, noise);
  check(BNNSRandomFillNormalFloat(random, &all_noise, 0, 0.02f), "noise");
  for (int n = 0; n < POINTS; n++) {
    int arm = n % CLASSES;
    float radius = (float)n / POINTS, angle = 6 * radius + 3.14159265f * (float)arm;
    points[2 * n] = radius * cosf(angle) + noise[2 * n];
    points[2 * n + 1] = radius * sinf(angle) + noise[2 * n + 1];
    labels[CLASSES * n + arm] = 1;
  }
}

int main(void) {
  BNNSRandomGenerator random = BNNSCreateRandomGeneratorWithSeed(BNNSRandomGeneratorMethodAES_CTR, 1, NULL);
  check(random ? 0 : -1, "random generator");
  layer layers[LAYERS];
  for (int i = 0; i < LAYERS; i++) {
    BNNSActivationFunction activation = i + 1 < LAYERS ? BNNSActivationFunctionTanh : BNNSActivationFunctionIdentity;
    layers[i] = make_layer(WIDTHS[i], WIDTHS[i + 1], activation, random);
  }
  BNNSLayerParametersLossSoftmaxCrossEntropy description = {.function = BNNSLossFunctionSoftmaxCrossEntropy,
                                                            .i_desc = vector(CLASSES, NULL),
                                                            .o_desc = vector(1, NULL),
                                                            .reduction = BNNSLossReductionMean};
  BNNSFilter loss = BNNSFilterCreateLayerLoss(&description, NULL);
  check(loss ? 0 : -1, "loss");

  /* The optimizer's lists: weights and bias of each layer; of the moments all first ones, then all second ones. */
  enum { PARAMETERS = 2 * LAYERS };
  BNNSNDArrayDescriptor *parameters[PARAMETERS], *moments[2 * PARAMETERS];
  const BNNSNDArrayDescriptor* gradients[PARAMETERS];
  for (int i = 0; i < PARAMETERS; i++) {
    layer* l = &layers[i / 2];
    BNNSNDArrayDescriptor* roles = i % 2 ? l->bias : l->weights;
    parameters[i] = &roles[0];
    gradients[i] = &roles[1];
    moments[i] = &roles[2];
    moments[PARAMETERS + i] = &roles[3];
  }
  BNNSOptimizerAdamWithClippingFields adam = {.learning_rate = 0.01f,
                                              .beta1 = 0.9f,
                                              .beta2 = 0.999f,
                                              .time_step = 1,
                                              .epsilon = 1e-8f,
                                              .gradient_scale = 1,
                                              .regularization_scale = 1e-4f,
                                              .clipping_func = BNNSOptimizerClippingByGlobalNorm,
                                              .clip_gradients_max_norm = 1};

  static float points[POINTS * 2], labels[POINTS * CLASSES];
  spirals(random, points, labels);
  int right = 0;
  for (int epoch = 0; epoch < EPOCHS; epoch++) {
    float sum = 0;
    right = 0;
    for (int n = 0; n < POINTS; n += BATCH) {
      float value;
      float* scores = layers[LAYERS - 1].output;
      forward(layers, points + 2 * n);
      BNNSNDArrayDescriptor scores_delta = vector(CLASSES, layers[LAYERS - 1].output_gradient);
      check(BNNSLossFilterApplyBatch(loss, BATCH, scores, CLASSES, labels + CLASSES * n, CLASSES, NULL, 0, &value,
                                     &scores_delta, CLASSES),
            "loss");
      sum += value;
      for (int i = 0; i < BATCH; i++) {
        int guess = scores[CLASSES * i + 1] > scores[CLASSES * i];
        right += labels[CLASSES * (n + i) + guess] == 1;
      }
      backward(layers, points + 2 * n);
      check(BNNSOptimizerStep(BNNSOptimizerFunctionAdamWWithClipping, &adam, PARAMETERS, parameters, gradients, moments,
                              NULL),
            "AdamW");
      adam.time_step++;
    }
    if (epoch % 25 == 0 || epoch + 1 == EPOCHS) {
      printf("epoch %3d  loss %.4f  %d of %d points right\n", epoch, (double)(sum * BATCH / POINTS), right, POINTS);
    }
  }

  BNNSFilterDestroy(loss);
  for (int i = 0; i < LAYERS; i++) destroy_layer(&layers[i]);
  BNNSDestroyRandomGenerator(random);
  return right < POINTS * 95 / 100; /* it learns this well with any seed */
}
