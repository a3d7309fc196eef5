// swift-tools-version:5.9

// Apple's Swift classes for BNNS on Linux, on the C library of the Python package openbnns, in whose folder this one lies.
import Foundation
import PackageDescription

// Projects reach this folder through a symbolic link; programs remember where the library really is.
let libraries = URL(fileURLWithPath: "\(Context.packageDirectory)/../lib").resolvingSymlinksInPath().path

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
