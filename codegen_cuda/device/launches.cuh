// Launches that overlap (sm_90). The next launch may start once every block has said so. What
// earlier ones wrote or still read may be touched behind the wait, by the threads that have waited.
// A thread of every block waits, those that find nothing to do included: a launch that ends before
// those ahead of it lets the next one run into them.
__device__ __forceinline__ void let_next_launch_start() {
  asm volatile("griddepcontrol.launch_dependents;");
}
__device__ __forceinline__ void wait_for_earlier_launches() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
