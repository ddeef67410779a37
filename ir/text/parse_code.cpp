#include "ir/loops/loop_text_reader.h"
#include "ir/text/program_reader.h"
#include "ir/text/tensor_text.h"

namespace anydim::ir {

Code CodeParser::code(std::vector<std::size_t>& instructions) {
  Code code;
  code.name = tokens_.expect(TokenKind::GlobalName, "the name of a function, @name").text;
  tokens_.expect(",");
  code.slots = number("how many slots there are");
  tokens_.expect_all("slots", ",");
  const std::size_t begin = tokens_.peek().offset;
  const std::int32_t leaves = number("how many leaves there are");
  if (leaves > code.slots) tokens_.fail(begin, "there are no more leaves than slots");
  constexpr std::int32_t most_leaves = 1 << 20;
  if (leaves > most_leaves) tokens_.fail(begin, "no function has so many leaves");
  code.leaf_symbols.resize(static_cast<std::size_t>(leaves));
  tokens_.expect("leaves");
  LoopForm header;
  LoopTextReader(tokens_, header).symbols();
  code.symbols = std::move(header.symbols);
  while (tokens_.accept("input")) code.inputs.push_back(input());
  while (tokens_.accept("symbol")) symbol(code);
  while (tokens_.accept("buffer")) placed(code);
  while (tokens_.peek().kind == TokenKind::Number) {
    next_number(code.instructions.size(), "the instruction's number");
    instructions.push_back(tokens_.peek().offset);
    code.instructions.push_back(instruction());
  }
  while (tokens_.accept("output")) {
    Code::Output output;
    output.buffer = buffer();
    output.name = string("the name of the output, quoted");
    tokens_.expect(":");
    output.dtype = read_dtype(tokens_);
    output.dims = slots();
    const std::size_t begin = tokens_.peek().offset;
    if (tokens_.accept("drops")) output.ones = slots();
    if (!output.ones.empty() && output.ones.size() != output.dims.size())
      tokens_.fail(begin, "expected one number for each dim that an output may drop");
    code.outputs.push_back(std::move(output));
  }
  return code;
}

Code::Input CodeParser::input() {
  Code::Input input;
  input.buffer = buffer();
  input.name = string("the name of the input, quoted");
  tokens_.expect(":");
  if (tokens_.accept("object")) {
    input.type = FunctionParser(state_, FunctionParser::Kind::Function).read_type();
  } else {
    input.dtype = read_dtype(tokens_);
    input.dims = list([this] { return dim(); });
  }
  return input;
}

void CodeParser::symbol(Code& code) {
  const Token token = tokens_.peek();
  const Slot leaf = slot();
  if (leaf < 0 || static_cast<std::size_t>(leaf) >= code.leaf_symbols.size())
    tokens_.fail(token, "expected one of {} leaves", code.leaf_symbols.size());
  tokens_.expect("=");
  code.leaf_symbols[static_cast<std::size_t>(leaf)] =
      read_symbol_name(tokens_, "the name of a symbol").text;
}

void CodeParser::placed(Code& code) {
  using Place = Code::Buffer::Place;
  const Token token = tokens_.peek();
  if (buffer() != static_cast<std::int32_t>(code.buffers.size()))
    tokens_.fail(token, "expected the next buffer, b{}, found '{}'", code.buffers.size(),
                 token.text);
  tokens_.expect(":");
  Code::Buffer placed;
  if (tokens_.accept("input") || tokens_.at("constant")) {
    placed.place = tokens_.accept("constant") ? Place::Constant : Place::Input;
    placed.index = number("its number");
  } else if (tokens_.accept("arena")) {
    tokens_.expect_all("of", "stage");
    placed.segment = number("the number of a stage");
    placed.offset = slot("at");
    tokens_.expect(",");
    placed.bytes = slot();
    tokens_.expect("bytes");
  } else if (tokens_.accept("output")) {
    placed.place = Place::Output;
    placed.index = number("the number of an output");
    tokens_.expect_all("of", "stage");
    placed.segment = number("the number of a stage");
    tokens_.expect(",");
    placed.bytes = slot();
    tokens_.expect("bytes");
  } else if (tokens_.accept("pool")) {
    placed.place = Place::Pool;
    if (tokens_.peek().kind == TokenKind::Identifier && !tokens_.at("from") &&
        !tokens_.at("buffer") && !tokens_.at("output")) {
      placed.bytes = slot();
      tokens_.expect("bytes");
    }
  } else {
    tokens_.expected("where the buffer is: input, constant, arena, output or pool");
  }
  placed.name = source();
  code.buffers.push_back(std::move(placed));
}

Code::Instruction CodeParser::instruction() {
  if (tokens_.accept("stage")) return Code::RunStage{number("the number of a stage")};
  if (tokens_.accept("launch")) return launch();
  if (tokens_.accept("assert")) return assertion();
  if (tokens_.accept("jump")) return jump();
  if (tokens_.accept("iterate")) {
    Code::Iterate head;
    head.counter = slot();
    head.trips = slot("trips");
    head.condition = slot("while");
    tokens_.expect("else");
    head.target = number("the number of an instruction");
    return head;
  }
  if (tokens_.accept("next")) {
    Code::Next next;
    next.counter = slot();
    tokens_.expect("to");
    next.target = number("the number of an instruction");
    return next;
  }
  if (tokens_.accept("set")) return Code::SetSlots{copies([this] { return slot(); })};
  if (tokens_.accept("move")) return Code::MoveBuffers{copies([this] { return buffer(); })};
  if (tokens_.accept("enter")) return Code::Enter{};
  if (tokens_.accept("leave")) return Code::Leave{buffers()};
  if (tokens_.accept("allocate")) return allocate();
  if (tokens_.accept("append")) return append();
  if (tokens_.accept("call")) return call();
  if (tokens_.peek().text.starts_with('s')) return to_slot(slot());
  if (tokens_.peek().text.starts_with('b') || tokens_.at("-")) return to_buffer(buffer());
  tokens_.expected("an instruction");
}

Code::Instruction CodeParser::launch() {
  Code::Launch launch;
  tokens_.expect("kernel");
  launch.kernel = number("the number of a kernel");
  launch.buffers = buffers();
  launch.extents = slots("extents");
  launch.keys = slots("keys");
  launch.source = source();
  return launch;
}

Code::Instruction CodeParser::assertion() {
  Code::Assert check;
  check.slot = slot();
  check.message = string("the message, quoted");
  check.shown = list([this] {
    Code::Assert::Shown shown;
    shown.name = string("the name of what is shown, quoted");
    const Code::Argument given = argument();
    shown.buffer = given.buffer;
    shown.dtype = given.dtype;
    shown.dims = given.dims;
    return shown;
  });
  check.source = source();
  return check;
}

Code::Instruction CodeParser::jump() {
  const std::int32_t target = number("the number of an instruction");
  if (!tokens_.accept("if")) return Code::Jump{target};
  const Slot tested = slot();
  tokens_.expect("is");
  if (number("0") != 0) tokens_.expected("0");
  return Code::JumpIfZero{tested, target};
}

Code::Instruction CodeParser::allocate() {
  Code::Allocate allocate{.buffer = buffer()};
  if (!tokens_.at("in")) return allocate;
  allocate.element_of = buffer("in");
  allocate.counter = slot("at");
  allocate.expected = slot("of");
  return allocate;
}

Code::Instruction CodeParser::append() {
  Code::Append append;
  append.from = buffer();
  append.to = buffer("to");
  append.counter = slot("at");
  append.expected = slot("of");
  append.bytes = slot("bytes");
  append.dims = slots("dims");
  append.first = slots("first");
  append.source = source();
  return append;
}

Code::Instruction CodeParser::call() {
  if (!tokens_.accept("function")) {
    Code::CallValue call;
    call.value = buffer();
    call.arguments = arguments();
    call.results = buffers("to");
    call.opened = opened();
    call.source = source();
    return call;
  }
  Code::Call call;
  call.function = number("the number of a function");
  call.arguments = buffers();
  call.results = buffers("to");
  tokens_.expect("with");
  call.leaves = copies([this] { return slot(); });
  call.opened = opened();
  call.source = source();
  return call;
}

Code::Instruction CodeParser::to_slot(Slot to) {
  tokens_.expect("=");
  if (tokens_.accept("length")) return Code::ListLength{buffer("of"), to};
  if (!tokens_.accept("fetch")) tokens_.expected("'fetch' or 'length'");
  Code::Fetch fetch;
  fetch.slot = to;
  fetch.dtype = read_dtype(tokens_);
  fetch.buffer = buffer();
  tokens_.expect("[");
  fetch.element = read_integer(tokens_, "the number of an element");
  tokens_.expect("]");
  return fetch;
}

Code::Instruction CodeParser::to_buffer(std::int32_t to) {
  tokens_.expect("=");
  if (tokens_.accept("scalar")) {
    Code::StoreScalar store;
    store.buffer = to;
    store.dtype = read_dtype(tokens_);
    store.slot = slot();
    return store;
  }
  if (tokens_.accept("function")) {
    const std::int32_t function = number("the number of a function");
    return Code::MakeFunction{to, function, arguments()};
  }
  if (tokens_.accept("list")) return Code::MakeList{to, arguments()};
  if (tokens_.accept("insert")) {
    Code::ListInsert insert;
    insert.to = to;
    insert.element = argument();
    insert.list = buffer("into");
    insert.last_use = tokens_.accept("taken");
    if (insert.last_use) tokens_.expect("over");
    insert.position = slot("at");
    insert.source = source();
    return insert;
  }
  if (tokens_.accept("erase")) {
    Code::ListErase erase;
    erase.to = to;
    erase.list = buffer("from");
    erase.position = slot("at");
    erase.source = source();
    return erase;
  }
  if (tokens_.accept("element")) return element(to);
  if (tokens_.at("stack") || tokens_.at("concat")) return concat(to);
  tokens_.expected("scalar, function, list, insert, erase, element, stack or concat");
}

Code::Instruction CodeParser::element(std::int32_t to) {
  Code::ListAt at;
  at.to = to;
  at.list = buffer("of");
  tokens_.expect("at");
  if (tokens_.peek().kind == TokenKind::Number) at.element = number("the number of an element");
  else at.position = slot();
  at.opened = opened();
  at.source = source();
  return at;
}

Code::Instruction CodeParser::concat(std::int32_t to) {
  Code::ListConcat concat;
  concat.to = to;
  concat.new_axis = tokens_.take().text == "stack";
  concat.dtype = read_dtype(tokens_);
  concat.list = buffer("of");
  tokens_.expect("along");
  concat.axis = axis();
  concat.opened = opened();
  concat.source = source();
  return concat;
}

}  // namespace anydim::ir
