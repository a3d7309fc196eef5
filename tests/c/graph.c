/* Graphs, as programs for macOS use them: graph CASE MODEL MORE CASE MODEL MORE ... Each case checks its own numbers.
 */
#include <Accelerate/Accelerate.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(condition)                                                                     \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      const char* why = openbnns_last_error();                                               \
      fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, why ? why : "no message"); \
      exit(1);                                                                               \
    }                                                                                        \
  } while (0)

static bnns_graph_t compile(const char* path) {
  bnns_graph_compile_options_t defaults = {NULL, 0};
  bnns_graph_t graph = BNNSGraphCompileFromFile(path, NULL, defaults);
  CHECK(graph.data != NULL && graph.size > 0);
  return graph;
}

static bnns_graph_argument_t pointer(void* data, size_t size) {
  bnns_graph_argument_t argument;
  memset(&argument, 0, sizeof argument);
  argument.data_ptr = data;
  argument.data_ptr_size = size;
  return argument;
}

/* z = relu(x W + b) of two rows, with names, positions, workspace and repeated runs. */
static void dense(const char* path) {
  bnns_graph_t graph = compile(path);
  const char* names[3] = {NULL, NULL, NULL};
  BNNSGraphArgumentIntent intents[2];
  CHECK(BNNSGraphGetFunctionCount(graph) == 1);
  CHECK(BNNSGraphGetFunctionNames(graph, 1, names) == 0 && strcmp(names[0], "main") == 0);
  CHECK(BNNSGraphGetInputCount(graph, NULL) == 1 && BNNSGraphGetOutputCount(graph, "main") == 1);
  CHECK(BNNSGraphGetArgumentCount(graph, "") == 2);
  CHECK(BNNSGraphGetArgumentNames(graph, NULL, 3, names) == 0);
  CHECK(strcmp(names[0], "z") == 0 && strcmp(names[1], "x") == 0 && names[2] == NULL);
  CHECK((const char*)graph.data <= names[0] && names[0] < (const char*)graph.data + graph.size);
  CHECK(BNNSGraphGetInputNames(graph, NULL, 1, names) == 0 && strcmp(names[0], "x") == 0);
  CHECK(BNNSGraphGetOutputNames_v2(graph, NULL, 1, names) == 0 && strcmp(names[0], "z") == 0);
  CHECK(BNNSGraphGetArgumentIntents(graph, NULL, 2, intents) == 0);
  CHECK(intents[0] == BNNSGraphArgumentIntentOut && intents[1] == BNNSGraphArgumentIntentIn);
  CHECK(BNNSGraphGetArgumentPosition(graph, NULL, "x") == 1);
  CHECK(BNNSGraphGetArgumentPosition(graph, NULL, "nothing") == SIZE_MAX);
  const uint16_t* factors[2] = {(const uint16_t*)path, (const uint16_t*)path};
  size_t counts[2] = {7, 7};
  CHECK(BNNSGraphGetArgumentInterleaveFactors(graph, NULL, 2, factors, counts) == 0);
  CHECK(factors[0] == NULL && factors[1] == NULL && counts[0] == 0 && counts[1] == 0);

  float x[2][3] = {{1, 2, 3}, {-4, 5, -6}}, z[2][4];
  const float expected[2][4] = {{1, 0.5f, 4.25f, 2.5f}, {0, 2.25f, 4.25f, 0}};
  for (int round = 0; round < 2; round++) {
    bnns_graph_context_t context = BNNSGraphContextMake(graph);
    CHECK(context.data != NULL && context.size > 0);
    BNNSTensor tensor;
    memset(&tensor, 0, sizeof tensor);
    CHECK(BNNSGraphContextGetTensor(context, NULL, "z", true, &tensor) == 0);
    CHECK(tensor.rank == 2 && tensor.shape[0] == 2 && tensor.shape[1] == 4 && tensor.stride[0] == 4);
    CHECK(tensor.data_type == BNNSDataTypeFloat32 && strcmp(tensor.name, "z") == 0);
    size_t size = BNNSGraphContextGetWorkspaceSize(context, NULL);
    void* workspace = NULL;
    CHECK(size != SIZE_MAX && posix_memalign(&workspace, 16384, size) == 0);
    bnns_graph_argument_t arguments[2];
    arguments[0] = pointer(z, sizeof z);
    arguments[1] = pointer(x, sizeof x);
    for (int i = 0; i < 3; i++) {
      memset(z, 0, sizeof z);
      CHECK(BNNSGraphContextExecute(context, NULL, 2, arguments, size, (char*)workspace) == 0);
      CHECK(memcmp(z, expected, sizeof z) == 0);
    }
    CHECK(BNNSGraphContextExecute_v2(context, "main", 2, arguments, 0, NULL) == 0);

    /* The context allocates an output, and uses its memory again. */
    arguments[0] = pointer(NULL, 0);
    CHECK(BNNSGraphContextExecute(context, NULL, 2, arguments, 0, NULL) == 0);
    void* first = arguments[0].data_ptr;
    CHECK(first != NULL && arguments[0].data_ptr_size == sizeof z && memcmp(first, expected, sizeof z) == 0);
    arguments[0] = pointer(NULL, 0);
    CHECK(BNNSGraphContextExecute(context, NULL, 2, arguments, 0, NULL) == 0 && arguments[0].data_ptr == first);

    /* Failures change nothing. */
    memset(z, 1, sizeof z);
    float before = z[0][0];
    arguments[0] = pointer(z, sizeof z - 1);
    CHECK(BNNSGraphContextExecute(context, NULL, 2, arguments, 0, NULL) != 0 && z[0][0] == before);
    CHECK(strstr(openbnns_last_error(), "z has 31 bytes, but takes 32") != NULL);
    CHECK(BNNSGraphContextExecute(context, NULL, 1, arguments, 0, NULL) != 0);
    CHECK(BNNSGraphContextExecute(context, "other", 2, arguments, 0, NULL) != 0);
    CHECK(BNNSGraphContextExecute(context, NULL, 2, NULL, 0, NULL) != 0);
    free(workspace);
    BNNSGraphContextDestroy(context);
    CHECK(BNNSGraphContextExecute(context, NULL, 2, arguments, 0, NULL) != 0);
    CHECK(strstr(openbnns_last_error(), "destroyed") != NULL);
    BNNSGraphContextDestroy(context);
  }
  free(graph.data);
}

/* z = relu(x) with any number of rows, as pointers and as tensors. */
static void dynamic(const char* path) {
  bnns_graph_t graph = compile(path);
  bnns_graph_context_t context = BNNSGraphContextMake(graph);
  BNNSTensor tensor;
  memset(&tensor, 0, sizeof tensor);
  CHECK(BNNSGraphContextGetTensor(context, NULL, "x", true, &tensor) == 0);
  CHECK(tensor.shape[0] == -1 && tensor.shape[1] == 3);
  float x[7 * 3], z[7 * 3];
  for (int i = 0; i < 21; i++) x[i] = (float)(i % 5) - 2;
  bnns_graph_argument_t arguments[2];
  arguments[0] = pointer(z, sizeof z);
  arguments[1] = pointer(x, sizeof x);
  CHECK(BNNSGraphContextExecute(context, NULL, 2, arguments, 0, NULL) != 0);
  CHECK(BNNSGraphContextGetWorkspaceSize(context, NULL) == SIZE_MAX);
  CHECK(BNNSGraphContextSetBatchSize(context, NULL, 5) == 0);
  CHECK(BNNSGraphContextGetTensor(context, NULL, "z", true, &tensor) == 0 && tensor.shape[0] == 5);
  CHECK(BNNSGraphContextGetTensor(context, NULL, "z", false, &tensor) == 0 && tensor.shape[0] == -1);
  memset(z, 0xff, sizeof z);
  CHECK(BNNSGraphContextExecute(context, NULL, 2, arguments, 0, NULL) == 0);
  for (int i = 0; i < 15; i++) CHECK(z[i] == fmaxf(x[i], 0));
  CHECK(isnan(z[15]));

  uint64_t of_z[2] = {0, 0}, of_x[2] = {7, 0};
  bnns_graph_shape_t shapes[2] = {{2, of_z}, {2, of_x}};
  CHECK(BNNSGraphContextSetDynamicShapes(context, NULL, 2, shapes) == 0 && of_z[0] == 7 && of_z[1] == 3);
  CHECK(BNNSGraphContextGetWorkspaceSize_v2(context, NULL) != SIZE_MAX);
  CHECK(BNNSGraphContextExecute(context, NULL, 2, arguments, 0, NULL) == 0 && z[20] == fmaxf(x[20], 0));
  of_x[1] = 4; /* contradicts a constant */
  CHECK(BNNSGraphContextSetDynamicShapes(context, NULL, 2, shapes) < 0);
  CHECK(BNNSGraphContextSetDynamicShapes(context, NULL, 1, shapes) < 0);

  /* Every second column of four rows, into memory of the context. */
  BNNSTensor in, out;
  memset(&in, 0, sizeof in);
  memset(&out, 0, sizeof out);
  float wide[4][6];
  for (int i = 0; i < 24; i++) (&wide[0][0])[i] = (float)(i % 7) - 3;
  in.data_type = BNNSDataTypeFloat32;
  in.rank = 2;
  in.shape[0] = 4;
  in.shape[1] = 3;
  in.stride[0] = 6;
  in.stride[1] = 2;
  in.data = wide;
  in.data_size_in_bytes = sizeof wide;
  CHECK(BNNSGraphContextSetArgumentType(context, BNNSGraphArgumentTypeTensor) == 0);
  arguments[0].tensor = &out;
  arguments[1].tensor = &in;
  CHECK(BNNSGraphContextExecute(context, NULL, 2, arguments, 0, NULL) == 0);
  CHECK(out.rank == 2 && out.shape[0] == 4 && out.shape[1] == 3 && out.stride[0] == 3 && out.data != NULL);
  CHECK(strcmp(out.name, "z") == 0 && out.data_type == BNNSDataTypeFloat32);
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 3; j++) CHECK(((float*)out.data)[3 * i + j] == fmaxf(wide[i][2 * j], 0));
  in.shape[1] = 4;
  CHECK(BNNSGraphContextExecute(context, NULL, 2, arguments, 0, NULL) != 0);
  memset(&in, 0, sizeof in);
  in.rank = 2;
  in.shape[0] = 9;
  in.shape[1] = 3;
  CHECK(BNNSGraphTensorFillStrides(graph, NULL, "x", &in) == 0 && in.stride[0] == 3 && in.stride[1] == 1);
  in.shape[0] = -1;
  CHECK(BNNSGraphTensorFillStrides(graph, NULL, "x", &in) != 0);
  CHECK(BNNSGraphContextSetArgumentType(context, (BNNSGraphArgumentType)1) != 0);
  BNNSGraphContextDestroy_v2(context);
  free(graph.data);
}

struct seen {
  int count;
  BNNSGraphMessageLevel level;
  char text[1000], place[1000];
};

static void note(BNNSGraphMessageLevel level, const char* text, const char* place, bnns_user_message_data_t* more) {
  struct seen* seen = (struct seen*)more->data;
  seen->count++;
  seen->level = level;
  snprintf(seen->text, sizeof seen->text, "%s", text);
  snprintf(seen->place, sizeof seen->place, "%s", place ? place : "");
}

/* A model that cannot be compiled: who hears of it. The third argument is the end of the place. */
static void broken(const char* path, const char* place) {
  bnns_graph_compile_options_t options = BNNSGraphCompileOptionsMakeDefault();
  CHECK(options.data != NULL);
  struct seen seen;
  memset(&seen, 0, sizeof seen);
  bnns_user_message_data_t more = {sizeof seen, &seen};
  BNNSGraphCompileOptionsSetMessageLogCallback(options, note, &more);
  bnns_graph_t graph = BNNSGraphCompileFromFile(path, NULL, options);
  CHECK(graph.data == NULL && graph.size == 0);
  CHECK(seen.count == 1 && seen.level == BNNSGraphMessageLevelError);
  printf("%s\n", seen.text);
  size_t ends = strlen(seen.place), wanted = strlen(place);
  CHECK(ends >= wanted && strcmp(seen.place + ends - wanted, place) == 0);
  CHECK(strcmp(openbnns_last_error(), seen.text) == 0);
  BNNSGraphCompileOptionsSetMessageLogMask(options, BNNSGraphMessageLevelWarning);
  graph = BNNSGraphCompileFromFile(path, NULL, options);
  CHECK(graph.data == NULL && seen.count == 1 && openbnns_last_error() != NULL);
  BNNSGraphCompileOptionsSetMessageLogMask(options, 14);
  BNNSGraphCompileOptionsSetMessageLogCallback(options, NULL, NULL);
  graph = BNNSGraphCompileFromFile("/nonexistent/path/to/model.mlmodelc", NULL, options);
  CHECK(graph.data == NULL && seen.count == 1);
  BNNSGraphCompileOptionsDestroy(options);
  CHECK(BNNSGraphContextMake(graph).data == NULL);
  CHECK(BNNSGraphGetInputCount(graph, NULL) == SIZE_MAX);
}

/* Defaults and setters, and a graph that is written to a file, mapped, and mapped again. */
static void options(const char* path, const char* file) {
  bnns_graph_compile_options_t options = BNNSGraphCompileOptionsMakeDefault();
  CHECK(!BNNSGraphCompileOptionsGetTargetSingleThread(options) &&
        !BNNSGraphCompileOptionsGetGenerateDebugInfo(options));
  CHECK(BNNSGraphCompileOptionsGetOptimizationPreference(options) == BNNSGraphOptimizationPreferencePerformance);
  CHECK(BNNSGraphCompileOptionsGetOutputFD(options) == -1 && BNNSGraphCompileOptionsGetOutputPath(options) == NULL);
  BNNSGraphCompileOptionsSetTargetSingleThread(options, true);
  BNNSGraphCompileOptionsSetGenerateDebugInfo(options, true);
  BNNSGraphCompileOptionsSetOptimizationPreference(options, BNNSGraphOptimizationPreferenceIRSize);
  CHECK(BNNSGraphCompileOptionsGetTargetSingleThread(options) && BNNSGraphCompileOptionsGetGenerateDebugInfo(options));
  CHECK(BNNSGraphCompileOptionsGetOptimizationPreference(options) == BNNSGraphOptimizationPreferenceIRSize);
  char copied[1000];
  snprintf(copied, sizeof copied, "%s", file);
  BNNSGraphCompileOptionsSetOutputPath(options, copied);
  copied[0] = '?';
  CHECK(strcmp(BNNSGraphCompileOptionsGetOutputPath(options), file) == 0);
  bnns_graph_t graph = BNNSGraphCompileFromFile(path, "main", options);
  CHECK(graph.data != NULL && BNNSGraphGetArgumentCount(graph, NULL) == 2);
  CHECK(munmap(graph.data, graph.size) == 0);
  FILE* written = fopen(file, "r+b");
  CHECK(written != NULL && fseek(written, 0, SEEK_END) == 0);
  graph.size = (size_t)ftell(written);
  graph.data = mmap(NULL, graph.size, PROT_READ, MAP_PRIVATE, fileno(written), 0);
  CHECK(graph.data != MAP_FAILED && BNNSGraphGetArgumentPosition(graph, NULL, "x") == 1);
  bnns_graph_context_t context = BNNSGraphContextMake(graph);
  CHECK(context.data != NULL && BNNSGraphContextGetWorkspaceSize(context, NULL) != SIZE_MAX);
  BNNSGraphContextDestroy(context);
  CHECK(munmap(graph.data, graph.size) == 0);
  BNNSGraphCompileOptionsSetOutputPath(options, NULL);
  CHECK(BNNSGraphCompileOptionsGetOutputPath(options) == NULL);
  BNNSGraphCompileOptionsSetOutputFD(options, fileno(written));
  CHECK(BNNSGraphCompileOptionsGetOutputFD(options) == fileno(written));
  graph = BNNSGraphCompileFromFile_v2(path, NULL, options);
  CHECK(graph.data != NULL && munmap(graph.data, graph.size) == 0);
  BNNSGraphCompileOptionsSetOutputFD(options, -1);
  CHECK(BNNSGraphCompileOptionsGetOutputFD(options) == -1);
  fclose(written);
  BNNSGraphCompileOptionsDestroy(options);
  BNNSGraphCompileOptionsSetTargetSingleThread(options, true);
  CHECK(strstr(openbnns_last_error(), "destroyed") != NULL);
  graph.size = 64; /* not a graph */
  char zeros[64] = {0};
  graph.data = zeros;
  CHECK(BNNSGraphContextMake(graph).data == NULL);
}

struct memory {
  void* blocks[8];
  int count, freed;
};

static int allocate(void* user, size_t size, void** place, size_t alignment, size_t bytes) {
  struct memory* memory = (struct memory*)user;
  if (size != sizeof *memory || memory->count == 8) return 1;
  if (posix_memalign(place, alignment, bytes) != 0) return 1; /* the old block stays in the list */
  memory->blocks[memory->count++] = *place;
  return 0;
}

static void free_all(void* user, size_t size) {
  struct memory* memory = (struct memory*)user;
  if (size != sizeof *memory) abort();
  for (int i = 0; i < memory->count; i++) free(memory->blocks[i]);
  memory->freed++;
}

/* Outputs in the memory of the program, and messages about values that are not finite. The model is y = log(x). */
static void callbacks(const char* path) {
  bnns_graph_t graph = compile(path);
  bnns_graph_context_t context = BNNSGraphContextMake(graph);
  struct memory memory;
  memset(&memory, 0, sizeof memory);
  CHECK(BNNSGraphContextSetOutputAllocationCallback(context, allocate, NULL, sizeof memory, &memory) != 0);
  CHECK(BNNSGraphContextSetOutputAllocationCallback(context, allocate, free_all, sizeof memory, &memory) == 0);
  CHECK(BNNSGraphContextSetWorkspaceAllocationCallback(context, allocate, free_all, sizeof memory, &memory) == 0);
  struct seen seen;
  memset(&seen, 0, sizeof seen);
  bnns_user_message_data_t more = {sizeof seen, &seen};
  CHECK(BNNSGraphContextSetMessageLogCallback(context, note, &more) == 0);
  BNNSGraphContextEnableNanAndInfChecks(context, true);
  float x[4] = {1, 2, 3, 4};
  bnns_graph_argument_t arguments[2];
  arguments[0] = pointer(NULL, 0);
  arguments[1] = pointer(x, sizeof x);
  CHECK(BNNSGraphContextExecute(context, NULL, 2, arguments, 0, NULL) == 0);
  CHECK(memory.count == 1 && arguments[0].data_ptr == memory.blocks[0] && seen.count == 0);
  CHECK(fabsf(((float*)arguments[0].data_ptr)[3] - 1.3862944f) < 1e-6f);
  x[2] = -1;
  CHECK(BNNSGraphContextExecute(context, NULL, 2, arguments, 0, NULL) == 0);
  CHECK(seen.count >= 1 && strstr(seen.text, "1 NaN") != NULL && strstr(seen.place, "log") != NULL);
  CHECK(BNNSGraphContextSetMessageLogMask(context, BNNSGraphMessageLevelInfo) == 0);
  int count = seen.count;
  CHECK(BNNSGraphContextExecute(context, NULL, 2, arguments, 0, NULL) == 0 && seen.count == count);
  BNNSGraphContextDestroy(context);
  CHECK(memory.freed == 1); /* once, as both have the same context */
  free(graph.data);
}

/* int32 in, int32 and bool out. */
static void types(const char* path) {
  bnns_graph_t graph = compile(path);
  bnns_graph_context_t context = BNNSGraphContextMake(graph);
  int32_t a[4] = {1, 5, 3, 0}, b[4] = {2, 2, 3, -1}, s[4];
  unsigned char gt[4];
  bnns_graph_argument_t arguments[4];
  arguments[BNNSGraphGetArgumentPosition(graph, NULL, "s")] = pointer(s, sizeof s);
  arguments[BNNSGraphGetArgumentPosition(graph, NULL, "gt")] = pointer(gt, sizeof gt);
  arguments[BNNSGraphGetArgumentPosition(graph, NULL, "a")] = pointer(a, sizeof a);
  arguments[BNNSGraphGetArgumentPosition(graph, NULL, "b")] = pointer(b, sizeof b);
  CHECK(BNNSGraphContextExecute(context, NULL, 4, arguments, 0, NULL) == 0);
  const int32_t sums[4] = {3, 7, 6, -1};
  const unsigned char greater[4] = {0, 1, 0, 1};
  CHECK(memcmp(s, sums, sizeof s) == 0 && memcmp(gt, greater, sizeof gt) == 0);
  BNNSTensor tensor;
  memset(&tensor, 0, sizeof tensor);
  CHECK(BNNSGraphContextGetTensor(context, NULL, "gt", false, &tensor) == 0);
  CHECK(tensor.data_type == BNNSDataTypeBoolean);
  BNNSGraphContextDestroy(context);
  free(graph.data);
}

static bnns_graph_t shared;

static void* turn(void* number) {
  bnns_graph_context_t context = BNNSGraphContextMake(shared);
  float x[2][3], z[2][4], first[2][4];
  for (int i = 0; i < 6; i++) (&x[0][0])[i] = (float)(i + *(int*)number);
  bnns_graph_argument_t arguments[2];
  for (int i = 0; i < 200; i++) {
    arguments[0] = pointer(i ? z : first, sizeof z);
    arguments[1] = pointer(x, sizeof x);
    CHECK(BNNSGraphContextExecute(context, NULL, 2, arguments, 0, NULL) == 0);
    CHECK(i == 0 || memcmp(z, first, sizeof z) == 0);
  }
  BNNSGraphContextDestroy(context);
  return NULL;
}

/* Four threads with a context each on one graph. */
static void threads(const char* path) {
  shared = compile(path);
  pthread_t started[4];
  int numbers[4] = {0, 1, 2, 3};
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&started[i], NULL, turn, &numbers[i]) == 0);
  for (int i = 0; i < 4; i++) CHECK(pthread_join(started[i], NULL) == 0);
  free(shared.data);
}

/* A state of four, to which two values are joined on: y is the sum of all six. */
static void streaming(const char* path) {
  bnns_graph_t graph = compile(path);
  float past[4] = {1, 2, 3, 4}, x[2] = {10, 20}, y[1];
  BNNSTensor initial;
  memset(&initial, 0, sizeof initial);
  initial.data_type = BNNSDataTypeFloat32;
  initial.rank = 1;
  initial.shape[0] = 4;
  initial.stride[0] = 1;
  initial.data = past;
  initial.data_size_in_bytes = sizeof past;
  initial.name = "past";
  bnns_graph_context_t context = BNNSGraphContextMakeStreaming(graph, NULL, 1, &initial);
  CHECK(context.data != NULL);
  bnns_graph_argument_t arguments[3];
  size_t at = BNNSGraphGetArgumentPosition(graph, NULL, "past");
  CHECK(at < 3);
  const float expected[3] = {40, 67, 90};
  for (int i = 0; i < 3; i++) {
    arguments[0] = pointer(y, sizeof y);
    arguments[at] = pointer(NULL, 0);
    arguments[3 - at] = pointer(x, sizeof x);
    CHECK(BNNSGraphContextExecute(context, NULL, 3, arguments, 0, NULL) == 0);
    CHECK(fabsf(y[0] - expected[i]) < 1e-4f);
    CHECK(arguments[at].data_ptr != NULL && ((float*)arguments[at].data_ptr)[3] == 20);
  }
  CHECK(past[0] == 1);
  BNNSGraphContextDestroy(context);
  initial.name = "other";
  CHECK(BNNSGraphContextMakeStreaming(graph, NULL, 1, &initial).data == NULL);
  /* An ordinary context reads and keeps the state where the caller has it. */
  context = BNNSGraphContextMake(graph);
  arguments[0] = pointer(y, sizeof y);
  arguments[at] = pointer(past, sizeof past);
  arguments[3 - at] = pointer(x, sizeof x);
  CHECK(BNNSGraphContextExecute(context, NULL, 3, arguments, 0, NULL) == 0 && fabsf(y[0] - 40) < 1e-4f);
  CHECK(BNNSGraphContextSetStreamingAdvanceCount(context, 1) != 0);
  BNNSGraphContextDestroy(context);
  free(graph.data);
}

int main(int count, char** words) {
  for (int i = 1; i + 2 < count; i += 3) {
    const char *test = words[i], *path = words[i + 1], *more = words[i + 2];
    if (strcmp(test, "dense") == 0)
      dense(path);
    else if (strcmp(test, "dynamic") == 0)
      dynamic(path);
    else if (strcmp(test, "broken") == 0)
      broken(path, more);
    else if (strcmp(test, "options") == 0)
      options(path, more);
    else if (strcmp(test, "callbacks") == 0)
      callbacks(path);
    else if (strcmp(test, "types") == 0)
      types(path);
    else if (strcmp(test, "threads") == 0)
      threads(path);
    else if (strcmp(test, "streaming") == 0)
      streaming(path);
    else
      return 2;
  }
  return 0;
}
