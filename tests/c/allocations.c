// Counts the memory that executions of a graph allocate and release and the locks that they take, where BNNSGraph
// promises none: a workspace is given, shapes are known, and outputs have memory. Prints all three.

#define _GNU_SOURCE
#include <Accelerate/Accelerate.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* data, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);

extern void __libc_free(void* data);

static int counting;
static size_t allocated, released, locked;

void* malloc(size_t size) {
  allocated += counting;
  return __libc_malloc(size);
}

void* calloc(size_t number, size_t size) {
  allocated += counting;
  return __libc_calloc(number, size);
}

void* realloc(void* data, size_t size) {
  allocated += counting;
  return __libc_realloc(data, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  allocated += counting;
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** data, size_t alignment, size_t size) {
  allocated += counting;
  *data = __libc_memalign(alignment, size);
  return *data == NULL ? ENOMEM : 0;
}

void free(void* data) {
  released += counting;
  __libc_free(data);
}

#define LOCKING(name, type)                                       \
  int name(type* lock) {                                          \
    static int (*next)(type*);                                    \
    if (next == NULL) *(void**)(&next) = dlsym(RTLD_NEXT, #name); \
    locked += counting;                                           \
    return next(lock);                                            \
  }
LOCKING(pthread_mutex_lock, pthread_mutex_t)
LOCKING(pthread_mutex_trylock, pthread_mutex_t)
LOCKING(pthread_rwlock_rdlock, pthread_rwlock_t)
LOCKING(pthread_rwlock_wrlock, pthread_rwlock_t)

int main(int argc, char** argv) {
  const size_t rows = 512, columns = 512, turns = 50;
  bnns_graph_t graph = BNNSGraphCompileFromFile(argv[argc - 1], NULL, BNNSGraphCompileOptionsMakeDefault());
  if (graph.data == NULL) return 1;
  bnns_graph_context_t context = BNNSGraphContextMake(graph);
  size_t size = BNNSGraphContextGetWorkspaceSize(context, NULL);
  if (context.data == NULL || size == SIZE_MAX) return 2;
  char* workspace = aligned_alloc(16384, (size + 16383) / 16384 * 16384 + 16384);
  float *x = calloc(rows * columns, sizeof *x), *y = calloc(rows * columns, sizeof *y);
  if (workspace == NULL || x == NULL || y == NULL) return 3;
  x[0] = 3;
  bnns_graph_argument_t arguments[2] = {
      {.data_ptr = y, .data_ptr_size = rows * columns * sizeof *y},
      {.data_ptr = x, .data_ptr_size = rows * columns * sizeof *x},
  };
  for (size_t i = 0; i < turns + 5; i++) {
    counting = i >= 5;
    int status = BNNSGraphContextExecute(context, NULL, 2, arguments, size, workspace);
    counting = 0;
    if (status != 0 || y[0] != 9) return 4;
  }
  printf("%zu %zu %zu\n", allocated, released, locked);
  free(x), free(y), free(workspace), free(graph.data);
  BNNSGraphContextDestroy(context);
  return 0;
}
