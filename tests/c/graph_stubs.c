/* A program that would use BNNSGraph if there were a graph. */
#include <Accelerate/Accelerate.h>
#include <vecLib/BNNS/bnns_graph.h>

int main(void) {
  bnns_graph_compile_options_t options = BNNSGraphCompileOptionsMakeDefault();
  BNNSGraphCompileOptionsSetTargetSingleThread(options, true);
  BNNSGraphCompileOptionsSetOptimizationPreference(options, BNNSGraphOptimizationPreferenceIRSize);
  bnns_graph_t graph = BNNSGraphCompileFromFile("model.mlmodelc", NULL, options);
  BNNSGraphCompileOptionsDestroy(options);
  if (graph.data != NULL) return 1;
  bnns_graph_context_t context = BNNSGraphContextMake(graph);
  float x = 1;
  bnns_graph_argument_t arguments[2] = {{{NULL}, 0}, {{NULL}, 0}};
  arguments[0].data_ptr = &x;
  arguments[0].data_ptr_size = sizeof x;
  if (context.data != NULL || BNNSGraphContextSetArgumentType(context, BNNSGraphArgumentTypePointer) == 0) return 2;
  if (BNNSGraphContextExecute(context, NULL, 2, arguments, 0, NULL) == 0) return 3;
  if (BNNSGraphContextGetWorkspaceSize(context, NULL) != SIZE_MAX) return 4;
  BNNSGraphContextDestroy(context);
  return 0;
}
