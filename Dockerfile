# A study in a container: docker build -t crowdmetric . && docker run -p 8000:8000 -v "$PWD/study:/study" crowdmetric
FROM python:3.12-slim
COPY pyproject.toml constraints.txt README.md LICENSE /build/
COPY src /build/src
RUN pip install --no-cache-dir --constraint /build/constraints.txt '/build[collect,postgres,tables]' && rm -rf /build \
    && useradd --create-home --uid 10001 study
USER study
VOLUME /study
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["crowdmetric", "collect"]
CMD ["/study", "--host", "0.0.0.0", "--port", "8000"]
