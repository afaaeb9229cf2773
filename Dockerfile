# For the JupyterHub of a class: all that the chapters need, so that nothing is installed there.
# On a server with GPUs: docker build --build-arg TORCH=https://download.pytorch.org/whl/cu130 .
FROM quay.io/jupyter/minimal-notebook:python-3.12

ARG TORCH=https://download.pytorch.org/whl/cpu
# By name, so that no grades, keys or solutions of the checkout get into it: see .dockerignore.
COPY --chown=${NB_UID}:${NB_GID} requirements.txt requirements-no-deps.txt /tmp/book/
COPY --chown=${NB_UID}:${NB_GID} binder/reader.txt /tmp/book/binder/
COPY --chown=${NB_UID}:${NB_GID} cudasim/pyproject.toml cudasim/README.md cudasim/LICENSE \
     /tmp/book/cudasim/
COPY --chown=${NB_UID}:${NB_GID} cudasim/src/cudasim /tmp/book/cudasim/src/cudasim
WORKDIR /tmp/book
RUN pip install --no-cache-dir --extra-index-url "${TORCH}" --requirement binder/reader.txt \
 && pip install --no-cache-dir --extra-index-url "${TORCH}" --no-deps \
    --requirement requirements-no-deps.txt ./cudasim \
 && pip install --no-cache-dir nbgitpuller==1.3.0
WORKDIR ${HOME}
