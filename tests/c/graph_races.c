// Graphs among threads: graph_races CASE MODEL, where the model is z = relu(x W + b) with any number of rows. One
// thread at a time may execute a context; all else has to be refused, and no result may be a mixture.
#include <Accelerate/Accelerate.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kMost = 8, kColumns = 3, kOutputs = 4 };

#define REQUIRE(condition)                                                                   \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      const char* text = openbnns_last_error();                                              \
      fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, text ? text : "no error"); \
      exit(1);                                                                               \
    }                                                                                        \
  } while (0)

static bnns_graph_t graph;
static atomic_bool stop;
static atomic_int done, refused;

static float weights[kColumns][kOutputs] = {{1, -2, 3, 0.5f}, {-1, 0.25f, 2, -3}, {0.5f, 1, -1, 2}};
static float bias[kOutputs] = {0.5f, -1, 0.25f, 2};

static void fill(float x[kMost][kColumns], int seed) {
  for (int i = 0; i < kMost * kColumns; i++) x[0][i] = (float)((i * 7 + seed) % 11) - 5;
}

static bool right(float x[kMost][kColumns], float z[kMost][kOutputs], int rows) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < kOutputs; j++) {
      float sum = bias[j];
      for (int k = 0; k < kColumns; k++) sum += x[i][k] * weights[k][j];
      if (z[i][j] != (sum > 0 ? sum : 0)) return false;
    }
  return true;
}

// One execution on new numbers: a status, and rows that are right, as many as the context may have been set to.
static int execute(bnns_graph_context_t context, int seed) {
  float x[kMost][kColumns], z[kMost][kOutputs];
  fill(x, seed);
  memset(z, 0x7f, sizeof z);
  bnns_graph_argument_t arguments[2];
  memset(arguments, 0, sizeof arguments);
  arguments[0].data_ptr = z, arguments[0].data_ptr_size = sizeof z;
  arguments[1].data_ptr = x, arguments[1].data_ptr_size = sizeof x;
  const int status = BNNSGraphContextExecute(context, NULL, 2, arguments, 0, NULL);
  if (status == 0)
    REQUIRE(right(x, z, 2));
  else
    for (size_t i = 0; i < sizeof z; i++) REQUIRE(((char*)z)[i] == 0x7f);
  return status;
}

static bnns_graph_context_t make(void) {
  bnns_graph_context_t context = BNNSGraphContextMake(graph);
  REQUIRE(context.data && BNNSGraphContextSetBatchSize(context, NULL, 2) == 0);
  for (int i = 0; i < 3; i++) REQUIRE(execute(context, i) == 0);
  return context;
}

static void* execute_until_stopped(void* data) {
  bnns_graph_context_t context = *(bnns_graph_context_t*)data;
  for (int i = 0; !stop; i++) {
    if (execute(context, i) == 0) {
      done++;
    } else {
      const char* text = openbnns_last_error();
      REQUIRE(text && strstr(text, "another thread is executing this context"));
      refused++;
    }
  }
  return NULL;
}

// Several threads execute one context, while another sets everything that can be set about it.
static void setters(void) {
  bnns_graph_context_t context = make();
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, execute_until_stopped, &context);
  for (int i = 0; i < 200 || (done < 1000 && i < 20000); i++) {
    REQUIRE(BNNSGraphContextSetBatchSize(context, NULL, (uint64_t)(2 + i % 3)) == 0);
    if (i % 8 == 0) BNNSGraphContextEnableNanAndInfChecks(context, i % 16 == 0);
    if (i % 16 == 0) REQUIRE(BNNSGraphContextSetArgumentType(context, BNNSGraphArgumentTypePointer) == 0);
    BNNSTensor tensor;
    memset(&tensor, 0, sizeof tensor);
    REQUIRE(BNNSGraphContextGetTensor(context, NULL, "x", true, &tensor) == 0);
    REQUIRE(tensor.shape[0] >= 2 && tensor.shape[0] <= 4);
  }
  stop = true;
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  REQUIRE(done > 0 && BNNSGraphContextSetBatchSize(context, NULL, 2) == 0 && execute(context, 1) == 0);
  BNNSGraphContextDestroy(context);
}

static void* execute_until_destroyed(void* data) {
  bnns_graph_context_t context = *(bnns_graph_context_t*)data;
  for (int i = 0;; i++) {
    if (execute(context, i) == 0) continue;
    const char* text = openbnns_last_error();
    REQUIRE(text && !strstr(text, "Report this as a bug"));
    if (strstr(text, "context has been destroyed")) return NULL;
    REQUIRE(strstr(text, "another thread is executing this context"));
  }
}

static void* execute_one_that_needs_python(void* data) {
  bnns_graph_context_t context = *(bnns_graph_context_t*)data;
  for (int i = 0;; i++) {
    BNNSGraphContextEnableNanAndInfChecks(context, i % 2 == 0);  // ignored once it is destroyed
    if (execute(context, i) == 0) continue;
    const char* text = openbnns_last_error();
    REQUIRE(text && !strstr(text, "Report this as a bug"));
    if (strstr(text, "context has been destroyed")) return NULL;
  }
}

// A context is destroyed while others execute it.
static void destruction(void) {
  for (int i = 0; i < 40; i++) {
    bnns_graph_context_t context = make();
    pthread_t threads[2];
    for (int k = 0; k < 2; k++)
      pthread_create(&threads[k], NULL, i % 2 ? execute_until_destroyed : execute_one_that_needs_python, &context);
    usleep((useconds_t)(i * 50));
    BNNSGraphContextDestroy(context);
    for (int k = 0; k < 2; k++) pthread_join(threads[k], NULL);
    REQUIRE(execute(context, 0) == -1);
  }
}

static void wait_for(pid_t child) {
  int status = 0;
  pid_t ended;
  while ((ended = waitpid(child, &status, 0)) < 0 && errno == EINTR) continue;
  REQUIRE(ended == child && status == 0);
}

// Children are made while another thread executes the context: they execute it, set it and destroy it.
static void forks(void) {
  bnns_graph_context_t context = make();
  pthread_t thread;
  pthread_create(&thread, NULL, execute_until_stopped, &context);
  for (int i = 0; i < 20; i++) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      alarm(240);
      for (int k = 0; k < 5; k++) REQUIRE(execute(context, k) == 0);
      REQUIRE(BNNSGraphContextSetBatchSize(context, NULL, 3) == 0 && execute(context, i) == 0);
      BNNSGraphContextDestroy(context);
      REQUIRE(execute(context, i) == -1);
      _exit(0);
    }
    wait_for(child);
  }
  stop = true;
  pthread_join(thread, NULL);
  REQUIRE(refused == 0);
  BNNSGraphContextDestroy(context);
}

static void* own_context(void* seed) {
  bnns_graph_context_t context = make();
  for (int i = 0; i < 2000; i++) REQUIRE(execute(context, i + *(int*)seed) == 0);
  BNNSGraphContextDestroy(context);
  return NULL;
}

// Threads with a context each never wait for each other, and are never refused.
static void contexts(void) {
  pthread_t threads[4];
  int seeds[4] = {0, 1, 2, 3};
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, own_context, &seeds[i]);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static const struct {
  const char* name;
  void (*run)(void);
} cases[] = {{"setters", setters}, {"destruction", destruction}, {"forks", forks}, {"contexts", contexts}};

int main(int count, char** words) {
  bnns_graph_compile_options_t defaults = {NULL, 0};
  if (count != 3) return 2;
  graph = BNNSGraphCompileFromFile(words[2], NULL, defaults);
  REQUIRE(graph.data);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (strcmp(words[1], cases[i].name) == 0) return cases[i].run(), 0;
  return 2;
}
