# For the JupyterHub of a class: all that the chapters need, so that nothing is installed there.
# On a server with GPUs: docker build --build-arg TORCH=https://download.pytorch.org/whl/cu130 .
FROM quay.io/jupyter/minimal-notebook:python-3.12

ARG TORCH=https://download.pytorch.org/whl/cpu
COPY --chown=${NB_UID}:${NB_GID} . /tmp/book
WORKDIR /tmp/book
RUN pip install --no-cache-dir --extra-index-url "${TORCH}" --requirement binder/reader.txt \
 && pip install --no-cache-dir --extra-index-url "${TORCH}" --no-deps \
    --requirement requirements-no-deps.txt ./cudasim \
 && pip install --no-cache-dir nbgitpuller==1.3.0
WORKDIR ${HOME}
