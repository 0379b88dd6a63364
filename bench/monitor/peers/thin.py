"""How many samples a second tsdownsample's M4 takes, on one processor: thin.py FILE BUCKET SECONDS; FILE has little-endian f32."""
import sys, time
import numpy
from tsdownsample import M4Downsampler

values = numpy.fromfile(sys.argv[1], dtype="<f4")
bucket, seconds = int(sys.argv[2]), float(sys.argv[3])
values = values[: len(values) // bucket * bucket]
sampler, count = M4Downsampler(), 0
sampler.downsample(values, n_out=4 * (len(values) // bucket), parallel=False)
begin = time.perf_counter()
while time.perf_counter() - begin < seconds:
    values[sampler.downsample(values, n_out=4 * (len(values) // bucket), parallel=False)]
    count += len(values)
print(count / (time.perf_counter() - begin))
