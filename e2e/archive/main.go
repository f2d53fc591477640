// archive writes an image of one layer, holding the given files and an empty /tmp, as an archive that containerd imports.
//
// usage: archive NAME:TAG OUT.tar /ENTRYPOINT FILE=/PATH..
package main

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"os"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 5 {
		log.Fatal("usage: archive NAME:TAG OUT.tar /ENTRYPOINT FILE=/PATH..")
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		log.Fatal("archive: ", err)
	}
}

func write(tag, out, entrypoint string, files []string) error {
	reference, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	content, err := pack(files)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: []string{entrypoint}, User: "65532:65532", WorkingDir: "/"}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	return tarball.WriteToFile(out, reference, image)
}

// pack makes the layer. It carries no times, so that the same files make the same image.
func pack(files []string) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	if err := writer.WriteHeader(&tar.Header{Name: "tmp", Mode: 0o1777, Typeflag: tar.TypeDir}); err != nil {
		return nil, err
	}
	for _, file := range files {
		source, path, _ := strings.Cut(file, "=")
		data, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		header := &tar.Header{Name: strings.TrimPrefix(path, "/"), Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(data); err != nil {
			return nil, err
		}
	}
	return buffer.Bytes(), writer.Close()
}
