// In the manner of Black and Scholes, with the fast functions of the special function units.
extern "C" __global__ void option_prices(const float* price, const float* strike,
                                         const float* years, float* call, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float root = __fsqrt_rn(years[i]);
    float d1 = (__logf(price[i] / strike[i]) + 0.06f * years[i]) * __frcp_rn(0.3f * root);
    float d2 = d1 - 0.3f * root;
    float k1 = __fdividef(1.0f, 1.0f + 0.2316419f * fabsf(d1));
    float k2 = __fdividef(1.0f, 1.0f + 0.2316419f * fabsf(d2));
    float n1 = __expf(-0.5f * d1 * d1) * k1 * (0.3193815f + k1 * (-0.3565638f + k1 * 1.7814779f));
    float n2 = __expf(-0.5f * d2 * d2) * k2 * (0.3193815f + k2 * (-0.3565638f + k2 * 1.7814779f));
    call[i] = price[i] * n1 - strike[i] * __expf(-0.02f * years[i]) * n2;
}
