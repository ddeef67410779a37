// Where tile `number` lies: batch points one after the other; within one, `group` tiles below each other, then the next column of tiles, so that
// blocks that run together share operands in the second-level cache.
struct TilePlace {
  int down, across, point;
};
template <int group>
__device__ __forceinline__ TilePlace place_tile(int number, int down, int across) {
  const int point = number / (down * across), within = number - point * (down * across);
  const int band = within / (group * across), rest = within - band * (group * across);
  const int height = down - band * group < group ? down - band * group : group;
  return TilePlace{band * group + rest % height, rest / height, point};
}
