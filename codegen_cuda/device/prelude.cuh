struct f16 {
  unsigned short bits;
};
struct bf16 {
  unsigned short bits;
};
struct boolean {
  unsigned char bits;
};
struct KernelError {
  int check;
  long long value;
};
