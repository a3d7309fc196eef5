// swift-tools-version:5.9

// Apple's Swift classes for BNNS on Linux, on the C library of the Python package openbnns, in whose folder this one lies.
import PackageDescription

let libraries = "\(Context.packageDirectory)/../lib"

let package = Package(
    name: "OpenBNNS",
    products: [.library(name: "Accelerate", targets: ["Accelerate"])],
    targets: [
        .systemLibrary(name: "COpenBNNS"),
        .target(
            name: "Accelerate",
            dependencies: ["COpenBNNS"],
            linkerSettings: [.unsafeFlags(["-L\(libraries)", "-Xlinker", "-rpath", "-Xlinker", libraries])]
        ),
    ]
)
