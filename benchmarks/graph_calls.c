// Times executions of a graph beside the filters that compute the same. usage: graph_calls CASE MODEL
#include <Accelerate/Accelerate.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kSize = 8, kRounds = 9 };

static bnns_graph_t graph;
static bnns_graph_context_t context;
static BNNSFilter filter;
static float x[2 * kSize] = {1, 2, 3, 4, 5, 6, 7, 8}, h[2 * kSize], y[2 * kSize], weights[kSize * kSize];
static bnns_graph_argument_t arguments[2];
static BNNSTensor tensors[2];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void require(int good, const char* what) {
  if (good) return;
  const char* text = openbnns_last_error();
  fprintf(stderr, "%s: %s\n", what, text ? text : "failed");
  exit(1);
}

static bnns_graph_context_t make(void) {
  bnns_graph_context_t made = BNNSGraphContextMake(graph);
  require(made.data != NULL && BNNSGraphContextSetBatchSize(made, NULL, 1) == 0, "context");
  return made;
}

static BNNSFilter make_filter(void) {
  BNNSLayerParametersFullyConnected p;
  memset(&p, 0, sizeof p);
  p.i_desc.layout = p.o_desc.layout = BNNSDataLayoutVector;
  p.i_desc.size[0] = p.o_desc.size[0] = kSize;
  p.w_desc.layout = BNNSDataLayoutRowMajorMatrix;
  p.w_desc.size[0] = p.w_desc.size[1] = kSize;
  p.w_desc.data = weights;
  p.i_desc.data_type = p.o_desc.data_type = p.w_desc.data_type = BNNSDataTypeFloat32;
  BNNSFilter made = BNNSFilterCreateLayerFullyConnected(&p, NULL);
  require(made != NULL, "filter");
  return made;
}

static void execute(void) { require(BNNSGraphContextExecute(context, NULL, 2, arguments, 0, NULL) == 0, "execute"); }

static void kernels(void) {
  require(BNNSFilterApply(filter, x, h) == 0 && BNNSFilterApply(filter, h, y) == 0, "apply");
}

static void of_two_sizes(void) {
  static int rows = 1;
  rows = 3 - rows;
  for (int i = 0; i < 2; i++) {
    tensors[i].rank = 2;
    tensors[i].shape[0] = rows;
    tensors[i].shape[1] = kSize;
    tensors[i].stride[0] = kSize;
    tensors[i].stride[1] = 1;
  }
  execute();
}

static void set_and_execute(void) {
  static uint64_t rows = 1;
  rows = 3 - rows;
  require(BNNSGraphContextSetBatchSize(context, NULL, rows) == 0, "sizes");
  execute();
}

// The fastest of several rounds, in nanoseconds per call.
static double fastest(void (*step)(void), int count) {
  double best = 1e9;
  for (int i = 0; i < 10; i++) step();
  for (int round = 0; round < kRounds; round++) {
    const double start = now();
    for (int i = 0; i < count; i++) step();
    const double each = (now() - start) / count;
    if (each < best) best = each;
  }
  return 1e9 * best;
}

static void* execute_many(void* seconds) {
  float in[kSize] = {1}, out[kSize];
  bnns_graph_argument_t given[2];
  memset(given, 0, sizeof given);
  given[0].data_ptr = out, given[1].data_ptr = in;
  given[0].data_ptr_size = given[1].data_ptr_size = sizeof in;
  bnns_graph_context_t own = make();
  long* calls = malloc(sizeof *calls);
  *calls = 0;
  for (const double end = now() + *(double*)seconds; now() < end;)
    for (int i = 0; i < 1000; i++, ++*calls)
      require(BNNSGraphContextExecute(own, NULL, 2, given, 0, NULL) == 0, "execute");
  return calls;
}

static double per_second(int threads) {
  pthread_t t[2];
  double seconds = 0.5;
  long total = 0;
  for (int i = 0; i < threads; i++) pthread_create(&t[i], NULL, execute_many, &seconds);
  for (int i = 0; i < threads; i++) {
    void* calls;
    pthread_join(t[i], &calls);
    total += *(long*)calls;
    free(calls);
  }
  return (double)total / seconds;
}

int main(int count, char** words) {
  bnns_graph_compile_options_t defaults = {NULL, 0};
  if (count != 3) return 2;
  graph = BNNSGraphCompileFromFile(words[2], NULL, defaults);
  require(graph.data != NULL, "graph");
  context = make();
  filter = make_filter();
  for (int i = 0; i < 2; i++) {
    arguments[i].data_ptr = i ? x : y;
    arguments[i].data_ptr_size = sizeof x;
    tensors[i].data_type = BNNSDataTypeFloat32;
    tensors[i].data = arguments[i].data_ptr;
    tensors[i].data_size_in_bytes = sizeof x;
  }
  if (!strcmp(words[1], "execute")) {
    printf("%.1f\n", fastest(execute, 20000));
  } else if (!strcmp(words[1], "kernels")) {
    printf("%.1f\n", fastest(kernels, 20000));
  } else if (!strcmp(words[1], "set_and_execute")) {
    printf("%.1f\n", fastest(set_and_execute, 500));
  } else if (!strcmp(words[1], "of_two_sizes")) {
    require(BNNSGraphContextSetArgumentType(context, BNNSGraphArgumentTypeTensor) == 0, "tensors");
    for (int i = 0; i < 2; i++) arguments[i].tensor = &tensors[i];
    printf("%.1f\n", fastest(of_two_sizes, 5000));
  } else if (!strcmp(words[1], "threads")) {
    double best = 0;
    for (int round = 0; round < 3; round++) {
      const double one = per_second(1), ratio = per_second(2) / one;
      if (ratio > best) best = ratio;
    }
    printf("%.3f\n", best);
  } else {
    return 2;
  }
  return 0;
}
