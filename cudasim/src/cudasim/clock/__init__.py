"""The virtual clock: modelled time for the host, the streams and the copy engines."""
