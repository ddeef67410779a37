// A product on wgmma (sm_90a): one thread of warpgroup 0, the producer, starts copies of operands
// by tensor memory access, the other warpgroups, the consumers, multiply and finish their rows.
// `Tile` (struct Tile of the kernel) holds the schedule, the places of shared memory and the
// multiplication, of a left operand, which gives a tile its rows, by a right one. Where swap_ab,
// the product's right operand is the multiplication's left.

// A ring of tiles in shared memory between the producer, one thread that starts copies, and the
// consumers, warpgroups that multiply. Stage s has a barrier that is full when its bytes have
// arrived, and one that is empty when every consumer warp has read it, in all blocks of a cluster
// that bring tiles to each other. Where two consumers multiply in turn (pingpong), each has a
// barrier that says when the other has begun the last multiplication of its tile. Where blocks of a
// cluster split a tile's depth, a barrier says when all of them have read this one's sums.

template <class Tile>
struct Ring {
  unsigned memory;  // stages, then the full barriers, the empty ones, those of turns or of sums

  __device__ __forceinline__ unsigned stage(int step) const {
    return memory + (unsigned)(step % Tile::stages) * Tile::stage_bytes;
  }
  __device__ __forceinline__ unsigned full(int step) const {
    return memory + Tile::stages * Tile::stage_bytes + (unsigned)(step % Tile::stages) * 8u;
  }
  __device__ __forceinline__ unsigned empty(int step) const {
    return full(step) + Tile::stages * 8u;
  }
  __device__ __forceinline__ unsigned turn(int group) const {
    return memory + Tile::stages * (Tile::stage_bytes + 16u) + (unsigned)group * 8u;
  }
  __device__ __forceinline__ unsigned sums_read() const { return turn(0); }
  // Parity of the phase that the step's stage is in.
  __device__ __forceinline__ static unsigned parity(int step) {
    return (unsigned)(step / Tile::stages) & 1u;
  }

  // By one thread; a barrier of the block must follow.
  __device__ __forceinline__ void initialise() const {
    for (int s = 0; s < Tile::stages; ++s) {
      initialise_barrier(full(s), 1);
      initialise_barrier(empty(s), Tile::reading_warps * Tile::sharing_blocks);
    }
    if constexpr (Tile::in_turn) {
      for (int group = 0; group < 2; ++group) initialise_barrier(turn(group), Tile::reading_warps);
    }
    if constexpr (Tile::split > 1)
      initialise_barrier(sums_read(), Tile::reading_warps * Tile::split);
    publish_barriers();
  }
  // By one elected lane of a warp that has read the step's stage: every block that copies into it
  // is told.
  __device__ __forceinline__ void release(int step, bool elected) const {
    if constexpr (Tile::sharing_blocks == 1) arrive(empty(step), elected);
    else {
#pragma unroll
      for (int rank = 0; rank < Tile::sharing_blocks; ++rank) arrive_at(empty(step), rank, elected);
    }
  }
  // Before the warpgroup's tile number `round`; the first one's first turn is free. Without turns a
  // warpgroup could take a stage's earlier phase, which has the same parity, for its own.
  __device__ __forceinline__ void begin_turn(int group, int round, KernelError* error) const {
    wait_for<Tile::checked>(turn(group), (unsigned)(round + (group == 0)) & 1u, error,
                            2 * Tile::stages + group, round);
  }
  // By one elected lane of each warp, as one that were slower to begin its turn than another to
  // begin its next would miss it.
  __device__ __forceinline__ void end_turn(int group, bool elected) const {
    arrive(turn(1 - group), elected);
  }
  // By those that have added the sums of all blocks: ends when all others have read this block's.
  // A second meeting of the cluster would wait for the results to reach the second-level cache.
  __device__ __forceinline__ void end_reading_sums(KernelError* error) const {
    __syncwarp();
#pragma unroll
    for (int rank = 0; rank < Tile::split; ++rank)
      arrive_at(sums_read(), rank, threadIdx.x % 32 == 0);
    wait_for<Tile::checked>(sums_read(), 0, error, 2 * Tile::stages, 0);
  }
  // Announces a whole stage of bytes, of a stage that may be overwritten.
  __device__ __forceinline__ void begin_free_stage(int step) const {
    arrive_expecting(full(step), Tile::stage_bytes);
  }
  // The same of any stage: waits until it may be overwritten.
  __device__ __forceinline__ void begin_stage(int step, KernelError* error) const {
    if (step >= Tile::stages)
      wait_for<Tile::checked>(empty(step), parity(step) ^ 1u, error,
                              Tile::stages + step % Tile::stages, step);
    begin_free_stage(step);
  }
};

// The descriptor of an operand's tile. With rows of the product "by rows", 64 of them lie side by
// side for each of 64 depths, then the next 64.
template <bool by_rows>
__device__ __forceinline__ unsigned long long operand_descriptor(unsigned address) {
  constexpr unsigned long long chunk_bytes = 64 * 128;
  return tile_descriptor(address) | (by_rows ? chunk_bytes / 16 << 16 : 0ull);
}

// sums = left right over `tiles` tiles of depth, at least one, from step `step` of the ring on. It
// is called by consumer warpgroup `group`, which has 64 rows of the tile, or tiles of its own.
template <class Tile>
__device__ __forceinline__ void multiply_ring(float (&sums)[1][Tile::columns / 8][4],
                                              const Ring<Tile>& ring, int group, int step,
                                              int tiles, KernelError* error) {
  const unsigned rows = Tile::in_turn ? 0u : (unsigned)group * (64u * Tile::depth * 2u);
  const bool elected = threadIdx.x % 32 == 0;
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile, ++step) {
    wait_for<Tile::checked>(ring.full(step), ring.parity(step), error, step % Tile::stages, step);
    const unsigned long long left = operand_descriptor<Tile::left_by_rows>(ring.stage(step) + rows);
    const unsigned long long right =
        operand_descriptor<Tile::right_by_rows>(ring.stage(step) + Tile::left_bytes);
    pin(sums[0]);
    begin_multiplications();
#pragma unroll
    for (int part = 0; part < Tile::depth / 16; ++part) {
      constexpr int left_step = Tile::left_by_rows ? 2048 : 32,
                    right_step = Tile::right_by_rows ? 2048 : 32;  // bytes of 16 of depth
      Tile::multiply(sums[0], left + part * (left_step / 16), right + part * (right_step / 16),
                     tile + part > 0);
    }
    commit_multiplications();
    // While this tile is multiplied the one before is done with.
    wait_multiplications<1>();
    pin(sums[0]);
    ring.release(step - 1, tile > 0 && elected);
  }
  if constexpr (Tile::in_turn) ring.end_turn(group, elected);
  wait_multiplications<0>();
  pin(sums[0]);
  if (Tile::persistent) ring.release(step - 1, elected);  // else nothing is copied there any more
}

// A warp's results, 16 rows x `columns` elements in shared memory, to row `row` and column `column`
// of all `rows` x `all_columns`: as one box where all 16 rows are there, else row by row, so that
// nothing behind the last row is written (a map describes the rows of a capacity).
template <int columns, typename Element>
__device__ __forceinline__ void store_results(const TensorMap& map, const Element* box,
                                              Element* results, long long row, long long column,
                                              long long rows, long long all_columns) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  publish_shared();
  __syncwarp();
  if (column >= all_columns) return;
  if (row + 16 <= rows) {
    if (lane == 0) {
      store_box(map, (unsigned)__cvta_generic_to_shared(box), (int)column, (int)row);
      commit_boxes();
    }
    return;
  }
  constexpr int together = 16 / sizeof(Element),
                across = columns / together;  // elements of 16 bytes
#pragma unroll 1
  for (int chunk = lane; chunk < 16 * across; chunk += 32) {
    const int down = chunk / across, right = chunk % across * together;
    if (row + down >= rows || column + right >= all_columns) continue;
    *reinterpret_cast<uint4*>(results + (row + down) * all_columns + column + right) =
        *reinterpret_cast<const uint4*>(box + down * columns + right);
  }
}

// An operand's part of a stage: `rows` rows of `depth` elements, at byte `offset`. Where blocks of
// a cluster bring it to each other, each brings an equal part to all of them.
template <int rows, int depth, bool by_rows, int blocks, unsigned offset>
struct OperandPart {
  // Starts this block's copies, of those from row `row` and depth `first_depth` of the operand on.
  // `point`: coordinates of the batch point.
  template <class... Point>
  static __device__ __forceinline__ void fetch(int rank, unsigned stage, const TensorMap& map,
                                               unsigned full, int row, int first_depth,
                                               Point... point) {
    constexpr int own = rows / blocks;
    const int part = blocks > 1 ? rank : 0, first = row + part * own;
    const unsigned to = stage + offset + (unsigned)part * (own * depth * 2u);
    const auto load = [&](unsigned place, int x, int y) {
      if constexpr (blocks == 1) load_box(place, map, full, x, y, point...);
      else load_box_for(place, map, full, x, y, (1 << blocks) - 1);
    };
    if constexpr (by_rows) {
#pragma unroll
      for (int chunk = 0; chunk < own / 64; ++chunk)
        load(to + chunk * (64u * depth * 2u), first + chunk * 64, first_depth);
    } else {
      load(to, first_depth, first);
    }
  }
};

template <class Tile>
struct MatmulWgmma {
  using Left =
      OperandPart<Tile::rows, Tile::depth, Tile::left_by_rows, Tile::left_sharing_blocks, 0>;
  using Right = OperandPart<Tile::columns, Tile::depth, Tile::right_by_rows,
                            Tile::right_sharing_blocks, Tile::left_bytes>;
  using Sums = float[1][Tile::columns / 8][4];
  static constexpr int cluster_blocks = Tile::sharing_blocks * Tile::split;
  static constexpr bool has_boxes = Tile::box_bytes > 0;

  Ring<Tile> ring;
  int first_tile, tile_count;  // the block's first tile, and the number of all
  DepthShare depth;
  int warpgroup;
  KernelError* error;

  static __device__ __forceinline__ unsigned char* shared_memory() {
    extern __shared__ __align__(1024) unsigned char shared[];
    return shared;
  }
  // The block's number in its cluster.
  static __device__ __forceinline__ int rank() {
    return static_cast<int>(blockIdx.x % cluster_blocks);
  }

  // One of the block's tiles after the other, of which `parties` take turns: the number of the
  // tile, that of its first stage in the ring, and how many tiles the party had before. A block
  // that is not persistent has one, and leaves the loop behind it.
  template <int parties>
  struct Walk {
    int tile, step, round;
  };
  template <int parties>
  __device__ __forceinline__ Walk<parties> begin_walk(int party) const {
    return {first_tile + party * advance(), party * depth.tiles, 0};
  }
  template <int parties>
  __device__ __forceinline__ bool goes_on(const Walk<parties>& at) const {
    return !Tile::persistent || at.tile < tile_count;
  }
  template <int parties>
  __device__ __forceinline__ void go_on(Walk<parties>& at) const {
    at.tile += parties * advance();
    at.step += parties * depth.tiles;
    ++at.round;
  }
  static __device__ __forceinline__ int advance() {
    return static_cast<int>(gridDim.x / cluster_blocks);
  }

  // By the producer warpgroup. Weights depend on no launch: those of the stages that are free at
  // the start come while the launch ahead still runs.
  template <class PlaceOf, class FetchRows, class FetchColumns>
  __device__ __forceinline__ void produce(const PlaceOf& place_of, const FetchRows& fetch_rows,
                                          const FetchColumns& fetch_columns) const {
    if constexpr (Tile::producer_registers != 0) give_registers<Tile::producer_registers>();
    const int early = Tile::early_weights ? min(depth.tiles, Tile::stages) : 0;
    if constexpr (Tile::early_weights) {
      if (threadIdx.x == 0) {
        const auto place = place_of(first_tile);
#pragma unroll 1
        for (int i = 0; i < early; ++i) {
          const unsigned stage = ring.stage(i), full = ring.full(i);
          ring.begin_free_stage(i);
          fetch_columns(place, stage, full, (depth.first + i) * Tile::depth);
        }
      }
    }
    wait_for_earlier_launches();
    if (threadIdx.x == 0) {
      for (auto at = begin_walk<1>(0); goes_on(at); go_on(at)) {
        const auto place = place_of(at.tile);
#pragma unroll 1
        for (int i = 0; i < depth.tiles; ++i) {
          const int step = at.step + i, first_depth = (depth.first + i) * Tile::depth;
          const unsigned stage = ring.stage(step), full = ring.full(step);
          if (!Tile::early_weights || step >= early) {
            ring.begin_stage(step, error);
            fetch_columns(place, stage, full, first_depth);
          }
          fetch_rows(place, stage, full, first_depth);
        }
        if constexpr (!Tile::persistent) break;
      }
    }
    if constexpr (Tile::split > 1) attend_cluster();  // until consumers have put down their sums
  }

  // A piece of a warp's sums to shared memory, by rows of the product.
  template <int columns>
  static __device__ __forceinline__ void put_down(float* to, const Sums& sums, int piece) {
    if constexpr (Tile::swap_ab) store_piece_transposed<columns, Tile::pitch>(to, sums, piece);
    else store_piece<columns>(to, sums, piece);
  }

  // One piece of a warp's sums after the other. Where results leave as boxes, warps meet between
  // reading the piece and storing the box.
  template <class Place, class Finish>
  __device__ __forceinline__ void finish_pieces(const Place& place, const Sums& sums,
                                                int row_of_warp, float* memory, unsigned char* box,
                                                const Finish& finish) const {
    constexpr int pieces = Tile::columns / Tile::piece_columns;
#pragma unroll 1
    for (int piece = 0; piece < pieces; ++piece) {
      if constexpr (!Tile::persistent && !has_boxes && pieces > 1) {
        if (piece > 0) __syncwarp();  // the piece before has been read
      }
      put_down<Tile::piece_columns>(memory, sums, piece);
      if constexpr (has_boxes) {
        if (threadIdx.x % 32 == 0) wait_boxes_read<0>();  // the warp's box is free
      }
      __syncwarp();
      const int across = piece * Tile::piece_columns;
      if constexpr (Tile::swap_ab)
        finish(place, place.first_row + across, place.first_column + row_of_warp, memory, box);
      else finish(place, place.first_row + row_of_warp, place.first_column + across, memory, box);
      if constexpr (Tile::persistent && !has_boxes) __syncwarp();
    }
  }

  // Blocks of a cluster put down all their sums, in place of the stages, then each finishes a part
  // of the tile.
  template <class Place, class Finish>
  __device__ __forceinline__ void finish_joined(const Place& place, const Sums& sums, int warp,
                                                const Finish& finish) const {
    float* const memory = reinterpret_cast<float*>(shared_memory());
    named_barrier<1>(Tile::rows * 2);  // all stages have been multiplied
    put_down<Tile::columns>(memory + warp * (Tile::swap_ab ? 16 : 16 * Tile::pitch), sums, 0);
    synchronise_cluster();
    finish(place, memory);
    ring.end_reading_sums(error);
  }

  // By each consumer warpgroup: they share a tile, or take tiles in turn.
  template <class PlaceOf, class Finish>
  __device__ __forceinline__ void consume(const PlaceOf& place_of, const Finish& finish) const {
    if constexpr (Tile::consumer_registers != 0) take_registers<Tile::consumer_registers>();
    wait_for_earlier_launches();
    const int group = warpgroup - 1;
    // Its number among the consumers, and what its first row lies behind the tile's.
    const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x / 32) - 4, 0);
    const int row_of_warp = (Tile::in_turn ? warp % 4 : warp) * 16;
    float* const piece = reinterpret_cast<float*>(shared_memory() + Tile::pieces_offset) +
                         warp * Tile::piece_elements;
    unsigned char* const box = shared_memory() + Tile::boxes_offset + warp * Tile::box_bytes;
    for (auto at = begin_walk<Tile::in_turn ? 2 : 1>(Tile::in_turn ? group : 0); goes_on(at);
         go_on(at)) {
      const auto place = place_of(at.tile);
      Sums sums;
      if constexpr (Tile::in_turn) ring.begin_turn(group, at.round, error);
      multiply_ring(sums, ring, group, at.step, depth.tiles, error);
      if constexpr (Tile::split > 1) {
        finish_joined(place, sums, warp, finish);
      } else if constexpr (Tile::fragments) {
        finish(place, place.first_row + row_of_warp, sums,
               ring.memory + Tile::boxes_offset + (unsigned)warp * Tile::box_bytes);
      } else {
        finish_pieces(place, sums, row_of_warp, piece, box, finish);
      }
      // One lane stores a box; products need all of them together.
      if constexpr (Tile::persistent && has_boxes) __syncwarp();
      if constexpr (!Tile::persistent) break;
    }
    if constexpr (has_boxes) {
      if (Tile::fragments ? elected_lane() : threadIdx.x % 32 == 0) wait_boxes();
    }
  }

  // By every thread, for the product's `tile_count` tiles. place_of(tile): where a tile lies, with
  // `first_row` and `first_column` of the block's part of it. fetch_rows(place, stage, full, depth)
  // starts the copies of the product's left operand, which has its rows, from depth `depth` on to
  // the stage at an address, whose barrier is `full`; fetch_columns, those of the right one.
  // finish(place, ...) makes results of sums: of all that blocks of a cluster have put down
  // (finish_joined), of a warp's fragments (consume), or of a piece (finish_pieces).
  template <class PlaceOf, class FetchRows, class FetchColumns, class Finish, class... Maps>
  static __device__ __forceinline__ void run(int rank, int tile_count, const PlaceOf& place_of,
                                             const FetchRows& fetch_rows,
                                             const FetchColumns& fetch_columns,
                                             const Finish& finish, KernelError* error,
                                             const Maps&... maps) {
    // A cluster whose blocks bring tiles to each other has one tile as high, or as wide, as all of
    // theirs.
    const int first_tile = static_cast<int>(blockIdx.x / cluster_blocks);
    if (first_tile >= tile_count) {
      wait_for_earlier_launches();
      return;
    }
    const Ring<Tile> ring{(unsigned)__cvta_generic_to_shared(shared_memory())};
    if (threadIdx.x == 0) {
      (prefetch_map(maps), ...);
      ring.initialise();
    }
    // No block copies into another before that one's barriers are there.
    if constexpr (Tile::sharing_blocks > 1) synchronise_cluster();
    else __syncthreads();
    const DepthShare depth =
        share_depth<Tile::split>(Tile::split > 1 ? rank : 0, Tile::depth_tiles);
    // The same value in all lanes, which the compiler can't tell of threadIdx.x.
    const int warpgroup = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x / 128), 0);
    const MatmulWgmma self{ring, first_tile, tile_count, depth, warpgroup, error};
    if constexpr (Tile::persistent) {
      if (warpgroup == 0) self.produce(place_of, fetch_rows, fetch_columns);
      else self.consume(place_of, finish);
    } else {
      const auto only = place_of(first_tile);
      const auto only_place = [&](int) { return only; };
      if (warpgroup == 0) self.produce(only_place, fetch_rows, fetch_columns);
      else self.consume(only_place, finish);
    }
    // Others may still copy here, or say that they have read.
    if constexpr (Tile::sharing_blocks > 1) synchronise_cluster();
  }
};
