// Modules, launches, streams, graphs and events of the fake driver.
#include "tests/support/fake_cuda_state.h"

namespace anydim::tests {

using State = FakeCuda::State;

void add_kernels(cuda::Driver& driver, const std::shared_ptr<State>& state) {
  driver.module_load = [state](cuda::Module* module, const void* image) {
    const Result result = state->enter("module_load");
    if (result != cuda::success) return result;
    auto loaded = state->gpu->load(image);
    if (loaded == nullptr) return cuda::invalid_image;
    *module = handle_of<cuda::Module>(new FakeModule{std::move(loaded)});
    return cuda::success;
  };
  driver.module_unload = [state](cuda::Module module) {
    state->enter("module_unload");
    delete reinterpret_cast<FakeModule*>(module);
    return cuda::success;
  };
  driver.module_function = [state](cuda::Function* function, cuda::Module module,
                                   const char* name) {
    const Result result = state->enter("module_function");
    if (result != cuda::success) return result;
    const auto& loaded = reinterpret_cast<FakeModule*>(module)->module;
    std::vector<std::size_t> parameters = state->gpu->parameters(loaded, name);
    if (parameters.empty()) return cuda::not_found;
    state->functions.push_back(
        std::make_unique<FakeFunction>(FakeFunction{loaded, name, std::move(parameters)}));
    *function = handle_of<cuda::Function>(state->functions.back().get());
    return cuda::success;
  };
  driver.function_attribute = [state](int* value, cuda::FunctionAttribute attribute,
                                      cuda::Function) {
    *value = attribute == cuda::registers              ? state->options.registers_per_thread
             : attribute == cuda::function_max_threads ? 1024
                                                       : 0;
    return state->enter("function_attribute");
  };
  driver.set_function_attribute = [state](cuda::Function handle, cuda::FunctionAttribute attribute,
                                          int value) {
    auto& function = *reinterpret_cast<FakeFunction*>(handle);
    if (attribute == cuda::dynamic_shared_bytes) {
      if (value > state->options.shared_per_block) return cuda::invalid_value;
      function.shared_bytes = value;
    }
    if (attribute == cuda::non_portable_cluster_size) function.large_clusters = value != 0;
    return state->enter("set_function_attribute");
  };
  driver.launch = [state](const cuda::LaunchConfiguration* configuration, cuda::Function function,
                          void** parameters, void**) {
    const Result result = state->enter("launch");
    return result != cuda::success
               ? result
               : state->launch(*configuration, *reinterpret_cast<FakeFunction*>(function),
                               parameters);
  };
  driver.encode_tensor_map = [state](cuda::TensorMapBytes* map, int type, unsigned rank,
                                     void* address, const std::uint64_t* dims,
                                     const std::uint64_t* strides, const unsigned* box,
                                     const unsigned*, int, int swizzle, int, int) {
    const Result result = state->enter("encode_tensor_map");
    if (result != cuda::success) return result;
    return state->gpu->encode(*map, type, reinterpret_cast<Address>(address), {dims, rank},
                              {strides, rank - 1}, {box, rank}, swizzle);
  };
}

void add_streams(cuda::Driver& driver, const std::shared_ptr<State>& state) {
  driver.stream_create = [state](cuda::Stream* stream, unsigned) {
    const Result result = state->enter("stream_create");
    if (result != cuda::success) return result;
    *stream = handle_of<cuda::Stream>(new FakeStream);
    state->made.push_back(*stream);
    return result;
  };
  driver.stream_destroy = [state](cuda::Stream stream) {
    state->enter("stream_destroy");
    state->drain(stream);
    std::erase(state->made, stream);
    delete reinterpret_cast<FakeStream*>(stream);
    return cuda::success;
  };
  driver.stream_query = [state](cuda::Stream stream) {
    const Result result = state->enter("stream_query");
    if (result != cuda::success) return result;
    const Result drained = state->drain(stream);
    return state->hangs ? cuda::not_ready : drained;
  };
  driver.stream_synchronize = [state](cuda::Stream stream) {
    const Result result = state->enter("stream_synchronize");
    if (result != cuda::success) return result;
    return state->stream_of(stream).capturing ? Result{900} : state->drain(stream);
  };
  driver.capture_begin = [state](cuda::Stream stream, int) {
    const Result result = state->enter("capture_begin");
    if (result == cuda::success) state->stream_of(stream).capturing = true;
    return result;
  };
  driver.capture_state = [state](cuda::Stream handle, int* status, std::uint64_t*, cuda::Graph*,
                                 const cuda::GraphNode** last, std::size_t* count) {
    const FakeStream& stream = state->stream_of(handle);
    *status = stream.capturing ? 1 : 0;
    if (last != nullptr) *last = &stream.last;
    if (count != nullptr) *count = stream.captured.empty() ? 0 : 1;
    return state->enter("capture_state");
  };
  driver.capture_end = [state](cuda::Stream handle, cuda::Graph* graph) {
    FakeStream& stream = state->stream_of(handle);
    stream.capturing = false;
    auto captured = std::exchange(stream.captured, {});
    const Result result = state->enter("capture_end");
    if (result == cuda::success)
      *graph = handle_of<cuda::Graph>(new FakeGraph{std::move(captured), {}});
    return result;
  };
  driver.graph_instantiate = [state](cuda::GraphExecutable* executable, cuda::Graph graph,
                                     unsigned long long) {
    const Result result = state->enter("graph_instantiate");
    if (result != cuda::success) return result;
    auto made = std::make_unique<FakeGraph>();
    for (const auto& node : reinterpret_cast<FakeGraph*>(graph)->nodes) {
      made->nodes.push_back(std::make_shared<FakeNode>(*node));
      made->made_from.push_back(node.get());
    }
    *executable = handle_of<cuda::GraphExecutable>(made.release());
    return result;
  };
  driver.graph_set_kernel = [state](cuda::GraphExecutable executable, cuda::GraphNode node,
                                    const cuda::KernelNode* kernel) {
    const Result result = state->enter("graph_set_kernel");
    if (result != cuda::success) return result;
    auto& graph = *reinterpret_cast<FakeGraph*>(executable);
    const auto found = std::ranges::find(graph.made_from, reinterpret_cast<FakeNode*>(node));
    if (found == graph.made_from.end()) return cuda::invalid_value;
    FakeNode& changed = *graph.nodes[static_cast<std::size_t>(found - graph.made_from.begin())];
    auto* function = reinterpret_cast<FakeFunction*>(kernel->function);
    if (changed.function != function) return cuda::invalid_value;
    changed.shape.grid = {kernel->grid_x, kernel->grid_y, kernel->grid_z};
    changed.shape.block = {kernel->block_x, kernel->block_y, kernel->block_z};
    changed.shape.shared_bytes = kernel->shared_bytes;
    changed.parameters = State::values_of(*function, kernel->parameters);
    return cuda::success;
  };
  driver.graph_launch = [state](cuda::GraphExecutable executable, cuda::Stream stream) {
    const Result result = state->enter("graph_launch");
    if (result != cuda::success) return result;
    for (const auto& node : reinterpret_cast<FakeGraph*>(executable)->nodes)
      state->push(stream, *node);
    return cuda::success;
  };
  driver.graph_destroy = [state](cuda::Graph graph) {
    state->enter("graph_destroy");
    delete reinterpret_cast<FakeGraph*>(graph);
    return cuda::success;
  };
  driver.graph_executable_destroy = [state](cuda::GraphExecutable executable) {
    state->enter("graph_executable_destroy");
    delete reinterpret_cast<FakeGraph*>(executable);
    return cuda::success;
  };
  driver.event_create = [state](cuda::Event* event, unsigned) {
    *event = handle_of<cuda::Event>(new FakeEvent);
    return state->enter("event_create");
  };
  driver.event_destroy = [state](cuda::Event event) {
    state->enter("event_destroy");
    delete reinterpret_cast<FakeEvent*>(event);
    return cuda::success;
  };
  driver.event_record = [state](cuda::Event event, cuda::Stream stream) {
    auto record = std::make_shared<FakeRecord>(FakeRecord{.stream = stream, .met = false});
    reinterpret_cast<FakeEvent*>(event)->record = record;
    state->push(stream, [state = state.get(), record] {
      record->microseconds = state->microseconds;
      record->met = true;
      return cuda::success;
    });
    return state->enter("event_record");
  };
  driver.stream_wait = [state](cuda::Stream stream, cuda::Event event, unsigned) {
    const Result result = state->enter("stream_wait");
    if (result != cuda::success) return result;
    state->push(stream,
                [state = state.get(), record = reinterpret_cast<FakeEvent*>(event)->record] {
                  return state->drain_until(*record);
                });
    return cuda::success;
  };
  driver.event_query = [state](cuda::Event event) {
    const Result result = state->enter("event_query");
    if (result != cuda::success) return result;
    return reinterpret_cast<FakeEvent*>(event)->record->met ? cuda::success : cuda::not_ready;
  };
  driver.event_synchronize = [state](cuda::Event event) {
    const Result result = state->enter("event_synchronize");
    if (result != cuda::success) return result;
    return state->drain_until(*reinterpret_cast<FakeEvent*>(event)->record);
  };
  driver.event_elapsed = [state](float* milliseconds, cuda::Event begin, cuda::Event end) {
    *milliseconds =
        static_cast<float>(1e-3 * (reinterpret_cast<FakeEvent*>(end)->record->microseconds -
                                   reinterpret_cast<FakeEvent*>(begin)->record->microseconds));
    return state->enter("event_elapsed");
  };
}

}  // namespace anydim::tests
