@echo off
rem The nvidia-smi of simulated GPUs. Isolated: it must not start a simulation of its own.
setlocal
if not defined CUDASIM_PYTHON set CUDASIM_PYTHON=python
"%CUDASIM_PYTHON%" -I -S "%~dp0..\nvidia_smi.py" %*
