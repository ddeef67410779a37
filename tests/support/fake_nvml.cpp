// NVML of one GPU under load whose SM clock rises by 10 MHz a reading: what
// bench/campaign/load.py opens in a test.
extern "C" {

int nvmlInit_v2() { return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  static int gpu = 0;
  *device = &gpu;
  return index == 0 ? 0 : 2;
}

int nvmlDeviceGetClockInfo(void*, int type, unsigned* mhz) {
  static unsigned readings = 0;
  *mhz = type == 1 ? 1000 + 10 * readings++ : 2600;
  return 0;
}

int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 300500;
  return 0;
}

int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) {
  *celsius = 61;
  return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = 0x4;
  return 0;
}
}
