package main

import (
	"net/http"
	"os"

	"github.com/dunglas/mercure"
	"go.uber.org/zap"
)

func main() {
	logger := zap.NewNop()
	t, err := mercure.NewBoltTransport(logger, os.Args[2], "updates", 0, 0)
	if err != nil {
		panic(err)
	}
	hub, err := mercure.NewHub(mercure.WithTransport(t), mercure.WithAnonymous(), mercure.WithLogger(logger),
		mercure.WithPublisherJWT([]byte("secret-of-the-benchmark-32-bytes"), "HS256"))
	if err != nil {
		panic(err)
	}
	http.Handle("/.well-known/mercure", hub)
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
